import type { Db } from '../db/db.js';
import { OF_SELLER } from '../listing/listing.js';
import type { Resource } from '../listing/resource.js';
import { fewRows } from '../listing/table-listing.js';
import { listTokens, revokeToken, SCOPES, type TokenRow } from './tokens-store.js';

/** Tokens of programs that look up codes: listed and revoked. */
export const TOKEN: Resource<TokenRow, TokenRow, Db> = {
  listing: {
    name: 'tokens',
    about: 'Programs that may use the HTTP API: look up purchase codes, or manage the mirror.',
    none: 'There is no token. `seller-mirror tokens add NAME` makes one.',
    columns: [
      { name: 'name', type: 'word', value: ({ name }) => name },
      { name: 'scope', type: 'word', value: ({ scope }) => scope },
      { name: 'seller', type: 'word', value: ({ sellerId }) => sellerId ?? 'all' },
      { name: 'since', type: 'moment', value: ({ createdAt }) => createdAt },
      { name: 'last used', type: 'moment', value: ({ lastUsedAt }) => lastUsedAt },
    ],
    ...fewRows<TokenRow, Db>(
      [
        {
          name: 'scope',
          about: 'tokens with this scope',
          type: 'choice',
          choices: SCOPES,
          matches: ({ scope }: TokenRow, wanted) => scope === wanted,
        },
        { ...OF_SELLER, matches: ({ sellerId }: TokenRow, seller) => sellerId === seller },
      ],
      listTokens,
    ),
  },
  one: 'token',
  ids: 'name',
  async find(db, id) {
    return (await listTokens(db)).filter(({ name }) => name === id);
  },
  sellerOf: ({ sellerId }) => sellerId,
  actions: [
    {
      name: 'revoke',
      label: 'Revoke',
      logged: 'revoke token',
      about: 'make the token useless',
      isPossible: () => true,
      async perform({ source: db }, { name }) {
        await revokeToken(db, name);
        return { text: `the token of ${name} is revoked`, notice: 'revoked' };
      },
    },
  ],
};
