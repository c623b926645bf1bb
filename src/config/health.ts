import { isLoopback } from '../domain/address.js';
import type { Findings } from './problems.js';
import type { Reader } from './reader.js';
import type { HealthListen } from './types.js';
import type { Given } from './values.js';

const USUAL: HealthListen = { host: '127.0.0.1', port: 8790, chosen: false };

/**
 * Where the health endpoints listen: `host:port`, `[::1]:port`, or a port alone, which is one of
 * loopback, since they have no login. null for the word `off`.
 */
export function readHealth(reader: Reader): HealthListen | null {
  const { findings } = reader;
  const given = reader.optional('HEALTH_LISTEN');
  if (given === null) return USUAL;
  if (given.text.toLowerCase() === 'off') return null;
  const [, name, text = ''] =
    /^(?:(\[[\da-f:.]+\]|[\p{L}\p{N}._-]*):)?(\d{1,5})$/iu.exec(given.text) ?? [];
  const host = name === undefined || name === '' ? USUAL.host : name.toLowerCase();
  const port = text === '' ? NaN : Number(text);
  if (!(port <= 65_535) || !URL.canParse(`http://${host}`)) {
    findings.problem({
      where: given.where,
      value: given.text,
      what: 'is no host and port',
      remedy: 'write it as 127.0.0.1:8790, [::1]:8790 or 8790, or off',
    });
    return USUAL;
  }
  if (!isLoopback(host)) warnOfOpenPort(given, findings);
  return { host: host.replaceAll(/[[\]]/g, ''), port, chosen: true };
}

function warnOfOpenPort(given: Given, findings: Findings): void {
  findings.warn({
    where: given.where,
    value: given.text,
    what: 'opens health and metrics to other machines, without a login',
    remedy: 'keep it within a network you trust, or listen on 127.0.0.1',
  });
}
