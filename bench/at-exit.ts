import { report } from './report.js';

// Loaded before the program. The bench measures the time itself.
process.on('exit', () => report(0));
