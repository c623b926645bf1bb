import { checkCodes, createMarketplace, Secret } from 'seller-mirror';

const marketplace = createMarketplace({
  baseUrl: new URL(process.env.MARKETPLACE_URL),
  key: new Secret(process.env.MARKETPLACE_API_KEY),
});
const codes = process.argv.slice(2);
// How long to wait out a marketplace that can't be reached; 15 minutes by default.
const checks = checkCodes({ marketplace, codes, patienceMs: 60_000 });
for await (const { code, verdict, reason, purchase } of checks) {
  console.log(code, verdict, purchase?.item?.name ?? reason);
}
await marketplace.close();
