import { writeSync } from 'node:fs';
import { peakBytes } from './peak.js';

/** What `main` gave this process. */
export function given(): unknown {
  return JSON.parse(process.argv[2] ?? 'null');
}

/** Tells `main` what was measured, with what the process has cost so far. */
export function tell(result: object): void {
  const { user, system } = process.cpuUsage();
  writeSync(3, JSON.stringify({ ...result, peak: peakBytes(), cpuMs: (user + system) / 1000 }));
}
