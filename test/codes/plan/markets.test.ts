import { describe, it } from 'vitest';
import { expectTruth, MARKETS } from './markets.js';

describe('on 40 random markets of each kind, every verdict is true and every check ends', () => {
  it.each(MARKETS)('%s', (name, kind) => expectTruth(name, kind, 40));
});
