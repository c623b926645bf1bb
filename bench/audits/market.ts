import { once } from 'node:events';
import { join } from 'node:path';
import { startScript } from '../children.js';
import type { CodeMarketInput, CodeMarketReady, Seen } from './code-market.js';

/** The marketplace of one measurement, with the list of codes that is to be checked there. */
export interface Market {
  readonly url: string;
  /** The list, a code a line. */
  readonly file: string;
  /** How many codes it holds. */
  readonly codes: number;
  /** What it has seen since the last time this was asked. */
  readonly seen: () => Promise<Seen>;
}

/** Runs `work` with a marketplace of its own, whose list is written into `folder`. */
export async function withMarket<T>(
  folder: string,
  input: Omit<CodeMarketInput, 'file'>,
  work: (market: Market) => Promise<T>,
): Promise<T> {
  const { codes } = input;
  const file = join(folder, `codes-${codes}.txt`);
  const child = startScript('audits/code-market', { ...input, file });
  const answer = async <A>(): Promise<A> => ((await once(child, 'message')) as [A])[0];
  const { url } = await answer<CodeMarketReady>();
  const seen = async (): Promise<Seen> => {
    child.send('seen');
    return await answer<Seen>();
  };
  try {
    return await work({ url, file, codes, seen });
  } finally {
    const gone = once(child, 'exit');
    child.disconnect();
    await gone;
  }
}
