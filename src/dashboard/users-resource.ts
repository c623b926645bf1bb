import type { Db } from '../db/db.js';
import type { Resource } from '../listing/resource.js';
import { fewRows } from '../listing/table-listing.js';
import { deleteUser, type DashboardUser, listUsers, ROLES } from './access-store.js';

/** Accounts of the dashboard: listed and removed. */
export const USER: Resource<DashboardUser, DashboardUser, Db> = {
  listing: {
    name: 'users',
    about: 'Accounts of this dashboard. A viewer reads, with codes masked; an operator also acts.',
    none: 'There is no account. `seller-mirror users add NAME --role operator` adds one.',
    columns: [
      { name: 'name', type: 'word', value: ({ name }) => name },
      { name: 'role', type: 'word', value: ({ role }) => role },
      { name: 'since', type: 'moment', value: ({ createdAt }) => createdAt },
      { name: 'password', type: 'word', value: (user) => (user.hasPassword ? 'set' : 'none yet') },
    ],
    ...fewRows<DashboardUser, Db>(
      [
        {
          name: 'role',
          about: 'accounts with this role',
          type: 'choice',
          choices: ROLES,
          matches: ({ role }: DashboardUser, wanted) => role === wanted,
        },
      ],
      listUsers,
    ),
  },
  one: 'account',
  ids: 'name',
  async find(db, id) {
    return (await listUsers(db)).filter(({ name }) => name === id);
  },
  sellerOf: () => null,
  actions: [
    {
      name: 'remove',
      label: 'Remove',
      logged: 'remove account',
      about: 'remove the account, and end its sessions',
      isPossible: ({ name }, who) => name !== who,
      async perform({ source: db }, { name }) {
        await deleteUser(db, name);
        return { text: `${name} is removed; its sessions have ended`, notice: 'removed' };
      },
    },
  ],
};
