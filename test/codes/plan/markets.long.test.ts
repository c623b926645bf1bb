import { describe, it } from 'vitest';
import { expectTruth, MARKETS } from './markets.js';

/** Markets of each kind, after those of the quick test. `PLAN_MARKETS=2000` is for changes of the rules. */
const COUNT = Number(process.env['PLAN_MARKETS'] ?? 500);

describe(`on ${COUNT} random markets of each kind, every verdict is true and every check ends`, () => {
  it.each(MARKETS)('%s', (name, kind) => expectTruth(name, kind, COUNT, 41));
});
