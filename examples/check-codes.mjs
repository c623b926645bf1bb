import { checkCodes, createMarketplace, Secret } from 'seller-mirror';

const marketplace = createMarketplace({
  baseUrl: new URL(process.env.MARKETPLACE_URL),
  key: new Secret(process.env.MARKETPLACE_API_KEY),
});
const codes = process.argv.slice(2);
for await (const { code, verdict, reason, purchase } of checkCodes({ marketplace, codes })) {
  console.log(code, verdict, purchase?.item?.name ?? reason);
}
await marketplace.close();
