import { readFileSync, writeSync } from 'node:fs';

/** Sends a measurement to the bench (file descriptor 3), with what this process has used so far. */
export function report(ms: number): void {
  const { user, system } = process.cpuUsage();
  writeSync(3, JSON.stringify({ ms, peak: peakBytes(), cpuMs: (user + system) / 1000 }));
}

/**
 * Peak resident memory of this process. On Linux it comes from /proc, because there `resourceUsage` starts
 * with the memory of the parent process.
 */
function peakBytes(): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS * 1024;
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
