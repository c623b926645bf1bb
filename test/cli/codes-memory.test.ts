import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { startServer } from '../support/http-server.js';
import { until } from '../support/until.js';
import { folder, settings, start } from './support.js';

const mirror = useMirror();
const MIB = 1024 * 1024;

/** The most memory that a process has had, bytes. */
function peakOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

it.skipIf(process.platform !== 'linux')(
  'codes check stays small if each answer unpacks from 64 kB to 63 MB, with 48 calls under way',
  async () => {
    const body = JSON.stringify({ status: 'success', data: { note: 'x'.repeat(63 * MIB) } });
    const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } };
    const bombs = [
      { headers: { 'content-encoding': 'gzip' }, body: gzipSync(body) },
      { headers: { 'content-encoding': 'br' }, body: brotliCompressSync(body, quick) },
    ];
    const account = JSON.stringify({
      status: 'success',
      data: { username: 'ada', email: 'a@b.c' },
    });
    // A random code is denied, as a marketplace does: the check asks one before the first code of the list.
    const denied = { status: 404, body: '{"status":"error","msg":"Invalid purchase code"}' };
    const server = await startServer(({ url, body: form }, index) => {
      if (url.pathname.includes('account')) return { body: account };
      return form.includes('CODE-') ? (bombs[index % 2] ?? {}) : denied;
    });
    const list = join(folder(), 'codes.txt');
    writeFileSync(list, Array.from({ length: 150 }, (_, n) => `CODE-${n}-ABCDEFGH\n`).join(''));
    const env = settings(mirror().databaseUrl, server.url.href);
    const { process: child } = start(['codes', 'check', list, '--yes'], env);
    await until(() => server.requests.length > 100);
    expect(peakOf(child.pid ?? 0)).toBeLessThan(450 * MIB);
    child.kill('SIGKILL');
  },
);
