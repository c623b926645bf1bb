import { errorCode } from '../../domain/error-code.js';
import type { Log } from '../../domain/log.js';
import type { Secret } from '../../domain/secret.js';

const TIMEOUT_MS = 10_000;

/**
 * Tells a monitor such as healthchecks.io that a scheduled sync begins (`…/start`), has succeeded (the address itself)
 * or has failed (`…/fail`). A machine that is dead tells nothing, and the monitor raises the alarm. Never throws.
 * @param url its `{seller}` is replaced by the seller's name; never logged
 */
export async function ping(
  url: Secret,
  state: 'start' | 'success' | 'fail',
  seller: string,
  log: Log,
): Promise<void> {
  const target = new URL(url.reveal().replaceAll('{seller}', encodeURIComponent(seller)));
  if (state !== 'success') target.pathname = `${target.pathname.replace(/\/$/, '')}/${state}`;
  try {
    const response = await fetch(target, {
      headers: { 'user-agent': 'seller-mirror' },
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    response.body?.cancel().catch(() => undefined);
    if (!response.ok) log.warn('PING_URL was not accepted', { seller, status: response.status });
  } catch (error) {
    const code = errorCode(error instanceof Error ? (error.cause ?? error) : error);
    log.warn('PING_URL could not be reached', { seller, code });
  }
}
