import { readFileSync, writeSync } from 'node:fs';
import { request } from 'undici';

/** What the bench gave this process. */
export function given(): unknown {
  return JSON.parse(process.argv[2] ?? 'null');
}

/** Tells the bench what was measured, with what the process has cost so far. */
export function tell(result: object): void {
  const { user, system } = process.cpuUsage();
  writeSync(3, JSON.stringify({ ...result, peak: peakBytes(), cpuMs: (user + system) / 1000 }));
}

/**
 * Peak resident memory of this process. From /proc on Linux, where `resourceUsage` starts with the
 * memory of the parent process.
 */
function peakBytes(): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS * 1024;
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** Reads the list to its end and gives each chunk to `use`; returns its size in bytes. */
export async function download(
  listUrl: string,
  use: (chunk: Buffer) => void = () => undefined,
): Promise<number> {
  const { statusCode, body } = await request(listUrl);
  if (statusCode !== 200) throw new Error(`the marketplace answered ${statusCode}`);
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    use(chunk);
  }
  return bytes;
}
