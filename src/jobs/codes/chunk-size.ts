/** Codes of a chunk that a budget spreads over minutes anyway. */
const USUAL = 500;
/** Codes of a chunk where nothing but calls takes time: some seconds of work, as audits take turns. */
const UNLIMITED = 20_000;

/**
 * How many codes an audit asks for in one go. Between two chunks calls are not kept under way, which
 * matters only where no budget makes them wait.
 * @param requestsPerMinute 0: unlimited
 */
export function chunkSizeFor(requestsPerMinute: number): number {
  return requestsPerMinute === 0 ? UNLIMITED : USUAL;
}
