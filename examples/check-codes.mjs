import { checkCodes, createMarketplace } from 'seller-mirror';

const { MARKETPLACE_URL: baseUrl = '', MARKETPLACE_API_KEY: key = '' } = process.env;
const marketplace = createMarketplace({ baseUrl, key });
const codes = process.argv.slice(2);
// How long to retry while the marketplace is unreachable; 15 minutes by default.
const checks = checkCodes({ marketplace, codes, patienceMs: 60_000 });
for await (const { code, verdict, reason, purchase } of checks) {
  console.log(code, verdict, purchase?.item?.name ?? reason);
}
await marketplace.close();
