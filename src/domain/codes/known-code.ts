import type { Purchase } from '../item.js';

/** What the mirror holds of a code. A code that was never proven is not known. */
export interface KnownCode {
  readonly verdict: 'valid' | 'invalid';
  /** The last purchase seen, kept when the code becomes invalid; null when there never was one. */
  readonly purchase: Purchase | null;
  /** When the verdict was last proven, milliseconds since 1970. */
  readonly checkedAt: number;
}
