import type { Purchase } from '../../../src/domain/item.js';
import { hearAccount, hearCode, type Heard } from '../../../src/domain/codes/outcome.js';
import {
  proofsAfterCodes,
  proofsBeforeCodes,
  type NeededProof,
} from '../../../src/domain/codes/proofs.js';
import type { ChunkCall, Span, Timeline } from '../../../src/domain/codes/timeline.js';
import type { Reply } from '../../../src/domain/reply.js';
import { denied, found, limited, maintenance, opened, refused, switchedOff } from './support.js';

/** What the key is good for during a stretch of calls. */
export type KeyState = 'good' | 'revoked' | 'other-seller' | 'sells-nothing';

/** What a code really is; `refunded` is valid until `World.refundAt`, `theirs` is another seller's. */
export type Truth = 'valid' | 'invalid' | 'refunded' | 'theirs';

/** A reply that says nothing or casts doubt, in place of the proper one. */
export type Weather = 'limited' | 'maintenance' | 'switched-off' | 'refused';

/** A marketplace whose clock counts the calls it has answered. */
export interface World {
  readonly truths: ReadonlyMap<string, Truth>;
  readonly key: (tick: number) => KeyState;
  readonly weather: (tick: number) => Weather | null;
  readonly refundAt: number;
  /** Ticks after which nothing is answered for a while, and nothing arrives. */
  readonly lulls?: ReadonlySet<number>;
}

export const fairWorld: Pick<World, 'key' | 'weather' | 'refundAt'> = {
  key: () => 'good',
  weather: () => null,
  refundAt: Infinity,
};

type AnyReply = Reply<{ readonly value: Purchase }> &
  Reply<{ readonly value: { username: string } }>;

const WEATHER: Readonly<Record<Weather, AnyReply>> = {
  limited: limited,
  maintenance: maintenance,
  'switched-off': switchedOff,
  refused: refused,
};

function accountReply(world: World, tick: number): Heard & { account: string | null } {
  const weather = world.weather(tick);
  if (weather !== null) return hearAccount(WEATHER[weather]);
  const state = world.key(tick);
  if (state === 'revoked') return hearAccount(refused);
  return hearAccount(opened(state === 'other-seller' ? 'eve' : 'ada'));
}

function codeReply(world: World, code: string, tick: number): Heard {
  const weather = world.weather(tick);
  if (weather !== null) return hearCode(code, WEATHER[weather]);
  return hearCode(code, isFound(world, code, tick) ? found(code) : denied);
}

function isFound(world: World, code: string, tick: number): boolean {
  const truth = world.truths.get(code) ?? 'invalid';
  switch (world.key(tick)) {
    case 'good':
      return truth === 'valid' || (truth === 'refunded' && tick < world.refundAt);
    case 'other-seller':
      return truth === 'theirs';
    default:
      return false;
  }
}

/** A call with the tick at which the marketplace answered it, which a worker never learns. */
export type AnsweredCall = ChunkCall & { readonly tick: number };

/** What a worker has done to a chunk. */
export interface Worked {
  readonly timeline: Omit<Timeline, 'calls'> & { readonly calls: readonly AnsweredCall[] };
  /** Numbers at which no call was under way. */
  readonly quiet: readonly number[];
  /** Codes not asked for, since the plan ended the chunk. */
  readonly left: readonly string[];
}

interface UnderWayCall {
  readonly ask: NeededProof | { readonly kind: 'code'; readonly code: string };
  readonly begun: number;
  /** Null until it is answered. */
  answered: { readonly heard: object; readonly tick: number } | null;
}

export interface Work {
  readonly codes: readonly string[];
  readonly canaries: readonly string[];
  readonly concurrency: number;
  /** From 0 up to, not including, 1: in which order concurrent calls are answered and end. */
  readonly dice: () => number;
  /** Calls carried over from the chunk before. */
  readonly carried?: readonly ChunkCall[];
}

/** Works on a chunk as a worker would: follows the plans, keeps calls under way, waits at the end. */
export function work(
  world: World,
  { codes, canaries, concurrency, dice, carried = [] }: Work,
): Worked {
  const calls = [...carried] as AnsweredCall[];
  const quiet: number[] = [];
  const lulls: Span[] = [];
  let lullFrom: number | null = null;
  const underWay = new Set<UnderWayCall>();
  const waiting = [...codes];
  let number = carried.reduce((last, { ended }) => Math.max(last, ended), 0);
  let tick = 0;
  let lastHeard = 0;
  const timeline = (): Worked['timeline'] => ({
    account: 'ada',
    canaries,
    calls: [...calls],
    lulls: [...lulls],
  });
  const begin = (ask: UnderWayCall['ask']): void => {
    underWay.add({ ask, begun: ++number, answered: null });
  };
  /** Something happens to one of the calls under way: it is answered, or its answer arrives. */
  const step = (): void => {
    const all = [...underWay];
    const call = all[Math.floor(dice() * all.length)] as UnderWayCall;
    if (call.answered === null) {
      if (world.lulls?.has(tick)) lullFrom = lastHeard;
      tick++;
      const { ask } = call;
      const heard =
        ask.kind === 'account' ? accountReply(world, tick) : codeReply(world, ask.code, tick);
      call.answered = { heard, tick };
      return;
    }
    underWay.delete(call);
    const { heard, tick: at } = call.answered;
    const ended = ++number;
    const heardCall = { ...call.ask, ...heard, begun: call.begun, ended, tick: at } as AnsweredCall;
    calls.push(heardCall);
    if (heardCall.outcome.kind !== 'silent') {
      if (lullFrom !== null) lulls.push({ begun: lullFrom, ended });
      [lastHeard, lullFrom] = [ended, null];
    }
    if (underWay.size === 0) quiet.push(number);
  };
  const count = (kind: string): number =>
    [...underWay].filter(({ ask }) => ask.kind === kind).length;

  for (;;) {
    if (waiting.length === 0) break;
    const busy = {
      codes: count('code'),
      account: count('account') > 0,
      canary: count('canary') > 0,
    };
    const plan = proofsBeforeCodes(timeline(), busy);
    plan.ask.forEach(begin);
    if (plan.next === 'end') break;
    if (plan.next === 'proofs' && underWay.size === 0) throw new Error('nothing to wait for');
    const mayBegin = plan.next === 'codes' && busy.codes < concurrency;
    if (mayBegin && (underWay.size === 0 || dice() < 0.6)) {
      begin({ kind: 'code', code: waiting.shift() as string });
    } else step();
  }
  while (underWay.size > 0) step();
  for (let asked = 0; ; asked++) {
    const [first] = proofsAfterCodes(timeline());
    if (first === undefined) break;
    if (asked > 20) throw new Error('proofs without end');
    begin(first);
    while (underWay.size > 0) step();
  }
  return { timeline: timeline(), quiet, left: waiting };
}

/** Repeatable dice. */
export function diceOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
