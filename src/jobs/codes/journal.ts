import { opens, runNow, sortEvidence } from '../../domain/codes/chunk-evidence.js';
import { carriedOver, type UnderWay } from '../../domain/codes/proofs.js';
import { Pulse, type Pace } from '../../domain/codes/pulse.js';
import {
  byEnd,
  precedes,
  type AccountCall,
  type ChunkCall,
  type CodeCall,
  type Span,
  type Timeline,
} from '../../domain/codes/timeline.js';
import { judgeFind, type CodeJudgement } from '../../domain/codes/verdict.js';

/** When a call was under way, and the time at which it ended, milliseconds since 1970. */
export interface Ended extends Span {
  readonly at: number;
}

export type TimedCall = ChunkCall & Ended;

/** When a call ended, milliseconds since 1970; 0 when it is not known. */
export function endOf(call: ChunkCall): number {
  return 'at' in call && typeof call.at === 'number' ? call.at : 0;
}

/** What is known beside the calls. */
type Subject = Omit<Timeline, 'calls' | 'lulls'>;

/** What a chunk tells the next one. */
export interface Carried {
  /** What proves the credential; empty when nothing does. */
  readonly calls: readonly ChunkCall[];
  readonly pulse: Pulse;
}

type CallKind = ChunkCall['kind'];

/** Numbers the beginnings and ends of calls, and holds those that judgements still need. */
export class Journal {
  #subject: Subject;
  readonly #underWay = new Map<number, CallKind>();
  readonly #counts: Record<CallKind, number> = { code: 0, account: 0, canary: 0 };
  #calls: ChunkCall[] = [];
  /** Those of `#calls` that were answered with account details. */
  #opened: AccountCall[] = [];
  readonly #pulse: Pulse;
  #lulls: Span[] = [];
  /** The end of the last call that told something; 0 when there is none. */
  #lastHeard = 0;
  #number = 0;

  /**
   * @param carried of the chunk before; numbers go on from those of its calls
   * @param now milliseconds since 1970; calls from long before are not carried over
   */
  constructor(subject: Subject, pace: Pace, carried: Carried | null, now: number) {
    this.#subject = subject;
    this.#pulse = carried?.pulse.copy() ?? new Pulse(pace);
    if (carried === null || this.#pulse.isStale(now)) {
      // A first reply that is long on its way may be old news too.
      this.#pulse.begin(now);
      return;
    }
    for (const call of byEnd(carried.calls)) {
      this.#keep(call);
      this.#number = this.#lastHeard = call.ended;
    }
  }

  /** @returns the number of the beginning */
  begin(kind: CallKind): number {
    const begun = ++this.#number;
    this.#underWay.set(begun, kind);
    this.#counts[kind]++;
    return begun;
  }

  /** @param at milliseconds since 1970 */
  end(begun: number, at: number): Ended {
    this.cutOff(begun);
    return { begun, ended: ++this.#number, at };
  }

  /** Nothing was heard of the call, and nothing will be. */
  cutOff(begun: number): void {
    const kind = this.#underWay.get(begun);
    if (kind === undefined) return;
    this.#counts[kind]--;
    this.#underWay.delete(begun);
  }

  /** Enters a call that has ended just now. */
  add(call: TimedCall): void {
    this.#keep(call);
    if (call.outcome.kind === 'silent') return;
    const isLull = this.#pulse.hear(call.at);
    if (isLull) this.#lulls.push({ begun: this.#lastHeard, ended: call.ended });
    this.#lastHeard = call.ended;
  }

  #keep(call: ChunkCall): void {
    this.#calls.push(call);
    if (!isOpened(call)) return;
    this.#opened.push(call);
    // The first account opened is the one that is meant; its call may be forgotten later.
    const { account } = this.#subject;
    if (account === null) {
      this.#subject = { ...this.#subject, account: call.account };
    }
  }

  /** The calls that have ended, in that order. */
  get timeline(): Timeline {
    return { ...this.#subject, calls: this.#calls, lulls: this.#lulls };
  }

  /** The verdict on a code that was found just now. */
  judgeFind(find: CodeCall): CodeJudgement {
    return judgeFind(find, this.#opened, this.#subject.account);
  }

  get underWay(): UnderWay {
    const { code, account, canary } = this.#counts;
    return { codes: code, account: account > 0, canary: canary > 0 };
  }

  /** As in `Pulse`, without those that calls under way will make. */
  get repliesLeft(): number {
    return this.#pulse.repliesLeft - this.#underWay.size;
  }

  /** As in `Pulse`. */
  get isInterrupted(): boolean {
    return this.#pulse.isInterrupted;
  }

  get isIdle(): boolean {
    return this.#underWay.size === 0;
  }

  /** The last number up to which every call that had begun has ended. */
  get quiet(): number {
    return this.#oldestUnderWay - 1;
  }

  get #oldestUnderWay(): number {
    // A map keeps the order in which they began.
    const [oldest = this.#number + 1] = this.#underWay.keys();
    return oldest;
  }

  /**
   * The calls as they may be judged while others are under way. What speaks for the credential
   * counts only when it had ended before any of those began, so that nothing they turn out to say
   * can touch it; what speaks against it counts always. Lulls since then touch none of that.
   */
  get quietTimeline(): Timeline {
    const { quiet, timeline } = this;
    const calls = timeline.calls.filter(
      (call) => call.ended <= quiet || !vouches(call, timeline.account),
    );
    const lulls = this.#lulls.filter(({ begun }) => begun <= quiet);
    return { ...timeline, calls, lulls };
  }

  /**
   * No proof from before denials that still want one: the next chunk would count their run from zero,
   * and go on for as long again with a key that may have been bad all the time.
   */
  get carried(): Carried {
    const { timeline } = this;
    const isInRun = runNow(sortEvidence(timeline)) > 0;
    return { calls: isInRun ? [] : carriedOver(timeline), pulse: this.#pulse };
  }

  /**
   * Forgets what no judgement to come can need: all from before the proofs that are nearest to the
   * oldest open denial, and that still stand. What speaks for the credential goes if it began before
   * that moment, what speaks against it only if it had ended too: so no proof is ever left without
   * the doubts and lulls that touch it. Canaries that were lost stay, so that they are not tried
   * again.
   * @param open denials that may still be proven
   */
  forget(open: ReadonlySet<ChunkCall>): void {
    const horizon = this.#horizon(open);
    if (horizon === 0) return;
    this.#calls = this.#calls.filter((call) => {
      const { kind, outcome, begun, ended } = call;
      if (kind === 'canary' && outcome.kind === 'denied') return true;
      return outcome.kind === 'affirmed' ? begun >= horizon : ended > horizon;
    });
    this.#opened = this.#calls.filter(isOpened);
    this.#lulls = this.#lulls.filter(({ ended }) => ended > horizon);
  }

  /** 0 when all is needed. */
  #horizon(open: ReadonlySet<ChunkCall>): number {
    const standing = carriedOver(this.timeline);
    const kinds = this.#calls.some(isFind) ? 2 : 1;
    if (standing.length < kinds) return 0;
    const oldest = [...open].reduce(
      (least, { begun }) => Math.min(least, begun),
      this.#oldestUnderWay,
    );
    const moment = { begun: oldest, ended: oldest };
    const nearest = (fits: (call: ChunkCall) => boolean): number =>
      this.#calls.reduce(
        (last, call) => (fits(call) && precedes(call, moment) ? Math.max(last, call.begun) : last),
        0,
      );
    const needed = [nearest(isOpened), ...standing.map(({ begun }) => begun)];
    if (kinds === 2) needed.push(nearest(isFind));
    return Math.min(...needed);
  }
}

function isOpened(call: ChunkCall): call is AccountCall {
  return call.kind === 'account' && call.outcome.kind === 'affirmed';
}

function isFind({ kind, outcome }: ChunkCall): boolean {
  return kind !== 'account' && outcome.kind === 'affirmed';
}

function vouches(call: ChunkCall, account: string | null): boolean {
  if (call.outcome.kind !== 'affirmed') return false;
  if (call.kind !== 'account') return true;
  return opens(call, account);
}
