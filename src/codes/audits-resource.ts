import type { Db } from '../db/db.js';
import { moment } from '../domain/moment.js';
import { duration, plural } from '../domain/text.js';
import { UserError } from '../domain/user-error.js';
import {
  OF_SELLER,
  type Listing,
  type ListingColumn,
  type ListingFilter,
} from '../listing/listing.js';
import { part, type Notice, type Resource } from '../listing/resource.js';
import { newestFirst, wordFilter } from '../listing/table-listing.js';
import { cancelAudit, getAudit, PROGRESS, progressIn, readAuditList } from './audits-store.js';
import { countRepeated } from './enter-list.js';
import { unprovenRemedy, whyUnproven } from './evidence.js';
import { describeReading } from './layout.js';
import { countUnproven } from './results-store.js';
import type { AuditList, AuditProgress, UnprovenCount } from './types.js';
import { sourceWords } from './words.js';

const FILTERS: readonly ListingFilter[] = [
  wordFilter('state', 'checks in this state', ['running', 'finished', 'cancelled', 'failed']),
  OF_SELLER,
];

/** Audits of all sellers, as `audits` lists them and the page shows them. */
export const AUDITS: Listing<AuditProgress, Db> = {
  name: 'audits',
  about: 'Lists of purchase codes and their checks.',
  none: 'No list was checked yet. `seller-mirror codes check LIST` makes one.',
  columns: [
    { name: 'audit', type: 'id', value: ({ auditId }) => auditId },
    { name: 'seller', type: 'seller', value: ({ sellerId }) => sellerId },
    { name: 'list', only: 'files', type: 'secret', value: ({ source }) => source },
    { name: 'list', only: 'tables', type: 'secret', value: listOf },
    { name: 'state', type: 'state', value: ({ state }) => state },
    { name: 'started', type: 'moment', value: ({ createdAt }) => createdAt },
    { name: 'codes', type: 'count', value: ({ codes }) => codes },
    { name: 'valid', type: 'count', value: ({ valid }) => valid },
    { name: 'invalid', type: 'count', value: ({ invalid }) => invalid },
    { name: 'no_longer_valid', type: 'count', value: ({ noLongerValid }) => noLongerValid },
    { name: 'unproven', type: 'count', value: ({ unproven }) => unproven },
    { name: 'waiting', type: 'count', value: ({ pending }) => pending },
    { name: 'problem', type: 'sentence', value: ({ problem }) => problem },
  ],
  filters: FILTERS,
  next: ({ auditId }) => auditId,
  ...newestFirst<AuditProgress>({
    table: 'mirror.audits',
    key: 'audit_id',
    columns: PROGRESS,
    always: `state <> 'draft'`,
    filters: FILTERS,
    rowOf: progressIn,
  }),
};

function listOf({ source }: AuditProgress): string {
  return sourceWords(source) ?? source;
}

/** An audit with why its codes have no verdict, and how its list was read. */
interface FoundAudit extends AuditProgress {
  readonly reasons: readonly UnprovenCount[];
  readonly list: AuditList | null;
}

/** The remedy for unproven codes of a finished audit. */
export const CHECK_AGAIN =
  'check the list again with --max-age 7d, which checks only codes without a verdict';

/** Why codes have no verdict, and what to do; the most frequent reason first. */
export function unprovenTexts(groups: readonly UnprovenCount[]): readonly string[] {
  return groups.map(
    ({ reason, codes }) =>
      `${plural(codes, 'code')}: ${whyUnproven(reason)} → ${unprovenRemedy(reason)}`,
  );
}

/** Counts of an audit; other zeros than that of a verdict are left out. */
const COUNTS: readonly ListingColumn<FoundAudit>[] = [
  { name: 'lines', type: 'count', value: ({ lines }) => lines },
  { name: 'lines without a code', type: 'count', value: ({ rejected }) => rejected || null },
  { name: 'lines with a code again', type: 'count', value: (of) => countRepeated(of) || null },
  { name: 'codes', type: 'count', value: ({ codes }) => codes },
  { name: 'checked recently enough', type: 'count', value: ({ reused }) => reused || null },
  { name: 'valid', type: 'count', value: ({ valid }) => valid },
  { name: 'invalid', type: 'count', value: ({ invalid }) => invalid },
  { name: 'no longer valid', type: 'count', value: ({ noLongerValid }) => noLongerValid },
  { name: 'unproven', type: 'count', value: ({ unproven }) => unproven },
  { name: 'not checked yet', type: 'count', value: ({ pending }) => pending || null },
  { name: 'requests', type: 'count', value: ({ apiCalls }) => apiCalls },
];

/** Audits: listed, shown with how their list was read, and cancelled. */
export const AUDIT: Resource<AuditProgress, FoundAudit, Db> = {
  listing: AUDITS,
  one: 'check',
  ids: 'number',
  async find(db, id) {
    const auditId = BigInt(id);
    const audit = await getAudit(db, auditId);
    if (audit === null) return [];
    const reasons = await countUnproven(db, auditId);
    return [{ ...audit, reasons, list: await readAuditList(db, auditId) }];
  },
  sellerOf: ({ sellerId }) => sellerId,
  record: {
    title: ({ sellerId }) => sellerId,
    head: [
      { name: 'list', type: 'secret', value: listOf },
      {
        name: 'state',
        type: 'state',
        value: ({ state, pending }) => (state === 'running' && pending > 0 ? 'unfinished' : state),
      },
    ],
    notices: noticesOf,
    figures: COUNTS,
    facts: [
      { name: 'started', type: 'moment', value: ({ createdAt }) => createdAt },
      { name: 'finished', type: 'moment', value: ({ finishedAt }) => finishedAt },
      {
        name: 'took',
        type: 'word',
        value: ({ createdAt, finishedAt }) =>
          finishedAt && duration(finishedAt.getTime() - createdAt.getTime()),
      },
      { name: 'result', type: 'text', value: resultOf },
    ],
    parts: [
      part<FoundAudit, Db, string>({
        title: 'How the list was read',
        columns: [{ name: 'choice', type: 'sentence', value: (text) => text }],
        rows: (_, { list }) => describeReading(list?.layout ?? null),
      }),
    ],
    json: ({ reasons, list, ...audit }) => ({ audit, unproven: reasons, list }),
  },
  actions: [
    {
      name: 'cancel',
      label: 'Cancel',
      about: 'stop the check in all processes; its verdicts are kept',
      isPossible: ({ state }) => state === 'running' || state === 'failed',
      async perform({ source: db }, { auditId, sellerId }) {
        if ((await cancelAudit(db, auditId)) === 'finished') {
          throw new UserError(
            `check ${auditId} is finished: there is nothing to cancel`,
            `\`seller-mirror audits export ${auditId}\` writes its result`,
            'FAILED',
          );
        }
        const audit = await getAudit(db, auditId);
        const left = plural(audit?.pending ?? 0, 'code');
        return {
          text: `${sellerId} · check ${auditId} is cancelled: ${left} not checked yet`,
          json: { audit },
          notice: 'cancelled',
        };
      },
    },
  ],
};

/** Why an audit did not end as it should, and the commands that go on. */
function noticesOf(audit: FoundAudit): readonly Notice[] {
  const { auditId, state, problem, pending, unproven, result, reasons } = audit;
  const isResultDue = result !== null && result.writtenAt === null;
  // A service writes no result file, and leaves a check that failed or was cancelled.
  const others =
    state === 'running' && !isResultDue ? '; a service that runs does so by itself' : '';
  const hints = [
    pending > 0 || isResultDue
      ? `To continue: \`seller-mirror audits resume ${auditId}\`${others}`
      : '',
    `To export: \`seller-mirror audits export ${auditId} --out result.csv\``,
    state === 'finished' && unproven > 0 ? `To get more verdicts, ${CHECK_AGAIN}` : '',
  ];
  return [
    ...(problem === null ? [] : [{ tone: 'bad', text: problem } as const]),
    ...unprovenTexts(reasons).map((text) => ({ tone: 'warn', text }) as const),
    ...hints.flatMap((text) => (text === '' ? [] : [{ tone: 'quiet', text } as const])),
  ];
}

function resultOf({ result }: FoundAudit): string | null {
  if (result === null) return null;
  const { path, writtenAt } = result;
  return writtenAt === null ? `will be in ${path}` : `${path}, written ${moment(writtenAt)}`;
}
