import { readFileSync, writeSync } from 'node:fs';
import { request } from 'undici';

/** What `main` gave this process. */
export function given(): unknown {
  return JSON.parse(process.argv[2] ?? 'null');
}

/** Tells `main` what was measured, with what the process has cost so far. */
export function tell(result: object): void {
  const { user, system } = process.cpuUsage();
  writeSync(3, JSON.stringify({ ...result, peak: peakBytes(), cpuMs: (user + system) / 1000 }));
}

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

/** The list as the marketplace sends it. */
export async function download(listUrl: string): Promise<Buffer> {
  const { statusCode, body } = await request(listUrl);
  if (statusCode !== 200) throw new Error(`the marketplace answered ${statusCode}`);
  return Buffer.from(await body.arrayBuffer());
}

/** Reads the list and throws it away; returns its size in bytes. */
export async function skim(listUrl: string): Promise<number> {
  const { statusCode, body } = await request(listUrl);
  if (statusCode !== 200) throw new Error(`the marketplace answered ${statusCode}`);
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) bytes += chunk.length;
  return bytes;
}
