import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  updateKnownCode,
  type CodeTransition,
  type KnownCode,
} from '../../../src/domain/codes/known-code.js';
import type { CodeResult, PendingCode } from '../../../src/store/audits/types.js';
import { useMirror } from '../../support/mirror.js';
import type { Db } from '../../../src/store/db.js';
import { readKnownCodes } from '../../../src/store/audits/codes.js';
import { getAudit } from '../../../src/store/audits/progress.js';
import { recordResults } from '../../../src/store/audits/record.js';
import { at, enterSeller, invalid, load, pending, purchaseOf, unproven, valid } from './support.js';

const mirror = useMirror();

const NAMES = ['A', 'B', 'C', 'D', 'E', 'F'];
/** The codes of the two audits. `C` and `D` are in both. */
const LISTS = [NAMES.slice(0, 4), NAMES.slice(2)] as const;

/** An answer to one of the four codes of a list. */
interface Answer {
  readonly code: number;
  readonly minute: number;
  readonly said: 'valid' | 'invalid' | 'unproven' | 'given-up';
  readonly license: string;
  /** The minute when support ends. */
  readonly support: number;
}

/** The answers that one call records for an audit. */
interface Call {
  readonly audit: 0 | 1;
  readonly answers: readonly Answer[];
}

const answers: fc.Arbitrary<Answer> = fc.record({
  code: fc.nat(3),
  minute: fc.nat(12),
  said: fc.constantFrom('valid', 'invalid', 'unproven', 'unproven', 'given-up'),
  license: fc.constantFrom('Regular', 'Extended'),
  support: fc.nat(12),
});

const calls: fc.Arbitrary<Call[]> = fc.array(
  fc.record({
    audit: fc.constantFrom(0 as const, 1 as const),
    answers: fc.array(answers, { minLength: 1, maxLength: 5 }),
  }),
  { minLength: 1, maxLength: 10 },
);

/** An audit with its codes in list order. */
interface Loaded {
  readonly auditId: bigint;
  readonly codes: readonly PendingCode[];
}

interface Check {
  readonly audit: bigint;
  readonly code: string;
  readonly said: Answer['said'];
  readonly result: CodeResult;
}

/** The expected state after a sequence of checks. */
interface Model {
  readonly known: ReadonlyMap<string, KnownCode>;
  readonly transitions: ReadonlyMap<string, readonly CodeTransition[]>;
  readonly ledger: readonly Check[];
}

/** The checks of a call. Each answer gets a unique name in `reason`. @param index of the call in its sequence */
function checksOf(call: Call, index: number, loaded: readonly Loaded[]): Check[] {
  const { auditId, codes } = loaded[call.audit] as Loaded;
  return call.answers.map(({ code, minute, said, license, support }, nth) => {
    const place = codes[code] as PendingCode;
    const reading = purchaseOf(place.code);
    const supportedUntil = at(support).toISOString().replace('.000', '');
    const purchase = {
      value: { ...reading.value, licenseType: license, supportedUntil },
      raw: { supported_until: supportedUntil },
    };
    const result =
      said === 'valid'
        ? valid(place, at(minute), purchase)
        : said === 'invalid'
          ? invalid(place, at(minute))
          : unproven(place, at(minute), said === 'given-up');
    const name = `answer ${index}.${nth}`;
    return { audit: auditId, code: place.code, said, result: { ...result, reason: name } };
  });
}

/** The checks that count: none of a settled code, and no answer twice. */
function accepted(checks: readonly Check[]): Check[] {
  const settled = new Set<string>();
  const seen = new Set<string>();
  return checks.filter(({ audit, code, said, result }) => {
    const key = `${audit} ${code}`;
    const timed = `${key} ${result.checkedAt.getTime()}`;
    const isRepeated = result.finding.verdict === 'unproven' && seen.has(timed);
    if (settled.has(key) || isRepeated) return false;
    seen.add(timed);
    if (said !== 'unproven') settled.add(key);
    return true;
  });
}

function replay(ledger: readonly Check[]): Model {
  const known = new Map<string, KnownCode>();
  const transitions = new Map<string, CodeTransition[]>();
  for (const { code, result } of ledger) {
    const before = known.get(code) ?? null;
    const after = updateKnownCode(before, result.finding, result.checkedAt.getTime());
    if (after.known !== null) known.set(code, after.known);
    transitions.set(code, [...(transitions.get(code) ?? []), ...after.transitions]);
  }
  return { known, transitions, ledger };
}

async function loadBoth(db: Db, sellerId: string): Promise<Loaded[]> {
  const loaded: Loaded[] = [];
  for (const list of LISTS) {
    const { auditId } = await load(db, list, { sellerId, chunkSize: 3 });
    loaded.push({ auditId, codes: await pending(db, auditId) });
  }
  return loaded;
}

/** The names of the answers in a seller's ledger, oldest first. */
async function storedLedger(sellerId: string): Promise<string[]> {
  const rows = await mirror().rows<{ reason: string }>(
    'SELECT reason FROM mirror.code_checks WHERE seller_id = $1 ORDER BY check_id',
    [sellerId],
  );
  return rows.map(({ reason }) => reason);
}

/** Expects everything in the store to follow from the ledger. */
async function expectState(sellerId: string, loaded: readonly Loaded[], model: Model) {
  const { db } = mirror();
  const states = await readKnownCodes(db, sellerId, NAMES);
  const transitions = await mirror().rows<{ code: string; kind: string; from: string; to: string }>(
    `SELECT c.code, t.kind, t.old_value AS "from", t.new_value AS "to"
       FROM mirror.code_transitions t JOIN mirror.purchase_codes c USING (code_id)
      WHERE t.seller_id = $1 ORDER BY t.seq`,
    [sellerId],
  );
  for (const name of NAMES) {
    expect(states.get(name)?.known ?? null).toEqual(model.known.get(name) ?? null);
    const changes = transitions
      .filter(({ code }) => code === name)
      .map(({ kind, from, to }) => ({ kind, from, to }));
    expect(changes).toEqual(model.transitions.get(name) ?? []);
  }
  for (const { auditId } of loaded) await expectAudit(auditId, model);
}

async function expectAudit(auditId: bigint, { ledger }: Model): Promise<void> {
  const mine = ledger.filter(({ audit }) => audit === auditId);
  const of = (...said: Answer['said'][]): number =>
    mine.filter((check) => said.includes(check.said)).length;
  const counts = {
    valid: of('valid'),
    invalid: of('invalid'),
    unproven: of('given-up'),
    codes: 4,
    pending: 4 - of('valid', 'invalid', 'given-up'),
  };
  const { db } = mirror();
  expect(await getAudit(db, auditId)).toMatchObject({
    ...counts,
    state: counts.pending === 0 ? 'finished' : 'running',
  });
  const [counted] = await mirror().rows(
    `SELECT count(*) FILTER (WHERE verdict = 'valid')::int AS valid,
            count(*) FILTER (WHERE verdict = 'invalid')::int AS invalid,
            count(*) FILTER (WHERE verdict = 'unproven')::int AS unproven, count(*)::int AS codes,
            count(*) FILTER (WHERE verdict IS NULL)::int AS pending,
            sum(attempts)::int AS attempts
       FROM mirror.audit_codes WHERE audit_id = $1`,
    [auditId],
  );
  expect(counted).toEqual({ ...counts, attempts: of('unproven', 'given-up') });
  const left = await mirror().rows(
    `SELECT chunk, pending FROM mirror.audit_chunks c WHERE audit_id = $1 AND pending <> (
       SELECT count(*) FROM mirror.audit_codes a
        WHERE a.audit_id = $1 AND a.position / 3 = c.chunk AND a.verdict IS NULL)`,
    [auditId],
  );
  expect(left).toEqual([]);
}

let sellers = 0;

it('any sequence of batches of results, with repeats, ends like the same sequence of single checks', async () => {
  await fc.assert(
    fc.asyncProperty(calls, async (sequence) => {
      const sellerId = `sequence-${sellers++}`;
      const db = await enterSeller(mirror(), sellerId);
      const loaded = await loadBoth(db, sellerId);
      for (const [index, call] of sequence.entries()) {
        const results = checksOf(call, index, loaded).map(({ result }) => result);
        const { auditId } = loaded[call.audit] as Loaded;
        await recordResults(db, auditId, results, 1);
      }
      const all = sequence.flatMap((call, index) => checksOf(call, index, loaded));
      const model = replay(accepted(all));
      expect(await storedLedger(sellerId)).toEqual(model.ledger.map(({ result }) => result.reason));
      await expectState(sellerId, loaded, model);
    }),
    { numRuns: 60 },
  );
});

it('concurrent writers in any order end as the ledger says, and every answer that counts is in it', async () => {
  await fc.assert(
    fc.asyncProperty(calls, fc.integer({ min: 2, max: 4 }), async (sequence, workers) => {
      const sellerId = `at-once-${sellers++}`;
      const db = await enterSeller(mirror(), sellerId);
      const loaded = await loadBoth(db, sellerId);
      // Every worker records all calls, each starting at another one.
      const work = async (worker: number): Promise<void> => {
        const from = Math.floor((worker * sequence.length) / workers);
        const calls = [...sequence.entries()];
        for (const [index, call] of [...calls.slice(from), ...calls.slice(0, from)]) {
          const results = checksOf(call, index, loaded).map(({ result }) => result);
          await recordResults(db, (loaded[call.audit] as Loaded).auditId, results, 1);
        }
      };
      await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
      const all = sequence.flatMap((call, index) => checksOf(call, index, loaded));
      const named = new Map(all.map((check) => [check.result.reason, check]));
      const ledger = (await storedLedger(sellerId)).map((name) => named.get(name) as Check);
      expect(accepted(ledger)).toEqual(ledger);
      expect(accepted([...ledger, ...all])).toHaveLength(ledger.length);
      await expectState(sellerId, loaded, replay(ledger));
    }),
    { numRuns: 40 },
  );
});
