import { readFileSync } from 'node:fs';

/**
 * Peak resident memory of this process in bytes. Where there is /proc its figure is taken: that of
 * `resourceUsage` begins, on Linux, with what the parent process had.
 */
export function peakBytes(): number {
  return peakOfStatus() ?? process.resourceUsage().maxRSS * 1024;
}

function peakOfStatus(): number | null {
  try {
    const match = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
    return match === null ? null : Number(match[1]) * 1024;
  } catch {
    return null;
  }
}
