import { tell } from './tell.js';

// Loaded before the program, to tell at its end how much memory it took.
process.on('exit', () => tell({ ms: 0 }));
