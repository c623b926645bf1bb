import { builtFolder } from './test-run.js';

/** The folder `dist`, as new as `src`. Whoever imports this file waits for it. */
export const DIST = await builtFolder();
