/** How often and how patiently a question may be asked. */
export interface Manners {
  /** Longest wait for an answer, milliseconds. */
  readonly patienceMs: number;
  /**
   * For how long an answer is good, milliseconds.
   * @param tookMs how long it took to come
   */
  readonly goodForMs: (tookMs: number) => number;
}

/** A question without an answer is asked anew after this time; until then nobody asks it again. */
const GIVE_UP_MS = 30_000;
/** A failure is repeated to those who ask within this time. */
const FAILURE_GOOD_FOR_MS = 1_000;

/** There was no answer in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';

  constructor(readonly patienceMs: number) {
    super(`no answer within ${patienceMs / 1000} s`);
  }
}

/** A question that was asked; `goodUntil` is null while the answer is awaited. */
interface Asked<T> {
  readonly answer: Promise<T>;
  readonly at: number;
  goodUntil: number | null;
}

/**
 * Makes a question that costs something safe to ask by anybody at any rate: everybody who asks
 * while an answer is awaited, or is still good, gets that one, and nobody waits for long. So a
 * thing that never answers gathers no more than one question in half a minute.
 * @returns asks; rejects as `ask` does, or with `NoAnswer`
 */
export function sparingly<T>(ask: () => Promise<T>, manners: Manners): () => Promise<T> {
  let last: Asked<T> | null = null;
  return () => {
    if (last === null || isOver(last)) last = begin(ask, manners);
    return within(manners.patienceMs, last.answer);
  };
}

function isOver({ at, goodUntil }: Asked<unknown>): boolean {
  return performance.now() >= (goodUntil ?? at + GIVE_UP_MS);
}

function begin<T>(ask: () => Promise<T>, manners: Manners): Asked<T> {
  const asked: Asked<T> = {
    answer: (async () => ask())(),
    at: performance.now(),
    goodUntil: null,
  };
  void rate(asked, manners);
  return asked;
}

/** Waits for the answer, and says how long it is good. */
async function rate<T>(asked: Asked<T>, { goodForMs }: Manners): Promise<void> {
  try {
    await asked.answer;
    const now = performance.now();
    asked.goodUntil = now + goodForMs(now - asked.at);
  } catch {
    asked.goodUntil = performance.now() + FAILURE_GOOD_FOR_MS;
  }
}

async function within<T>(patienceMs: number, answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NoAnswer(patienceMs)), patienceMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
