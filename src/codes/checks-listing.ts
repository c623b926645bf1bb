import type { Db } from '../db/db.js';
import type { Listing } from '../listing/listing.js';
import { describeCheck, isDenial } from './evidence.js';
import type { CodeCheck } from './types.js';

/** The checks of a code, as `codes show` and the page of the code show them. */
export const CHECKS: Pick<Listing<CodeCheck, Db>, 'name' | 'none' | 'columns'> = {
  name: 'checks',
  none: 'Not checked yet.',
  columns: [
    { name: 'checked', type: 'moment', value: ({ checkedAt }) => checkedAt },
    {
      name: 'verdict',
      type: 'state',
      value: (check) => (isDenial(check) ? 'denied' : check.verdict),
    },
    {
      name: 'response',
      type: 'text',
      value: ({ httpStatus, message }) =>
        [httpStatus, message].filter((one) => one !== null && one !== '').join(' '),
    },
    {
      name: 'audit',
      type: 'number',
      value: ({ auditId }) => auditId,
      link: ({ auditId }) => (auditId === null ? null : `/audits/${auditId}`),
    },
    { name: 'proof', type: 'long text', value: describeCheck },
  ],
};
