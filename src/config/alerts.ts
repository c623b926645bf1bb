import { mayCarryKey } from '../domain/address.js';
import { Secret } from '../domain/secret.js';
import type { Reader } from './reader.js';
import { readSecretSetting } from './secret-setting.js';
import type { Config } from './types.js';
import type { Given } from './values.js';

/** Where alerts go, and what they are signed with; null when nobody wants any. */
export function readAlerts(reader: Reader): Config['alerts'] {
  const { findings } = reader;
  const url = readSecretSetting(reader, 'ALERT_WEBHOOK_URL', 'the webhook’s address');
  const secret = readSecretSetting(reader, 'ALERT_WEBHOOK_SECRET', 'the webhook’s secret');
  if (url !== null) checkUrl(url, reader);
  if (secret !== null) checkSecret(secret, reader);
  if (url !== null && secret !== null) {
    return { url: new Secret(url.text), secret: new Secret(secret.text) };
  }
  if (url !== null && !isGiven(reader, 'ALERT_WEBHOOK_SECRET')) {
    findings.problem({
      where: 'ALERT_WEBHOOK_SECRET',
      what: 'is not set, but ALERT_WEBHOOK_URL is, and alerts are never sent unsigned',
      remedy: `set it to what the receiver checks signatures with; ${HOW_TO_MAKE_ONE}`,
    });
  }
  if (secret !== null && !isGiven(reader, 'ALERT_WEBHOOK_URL')) {
    findings.warn({
      where: secret.where,
      what: 'is set without ALERT_WEBHOOK_URL, so no alerts are sent',
      remedy: 'set ALERT_WEBHOOK_URL, or take the secret away',
    });
  }
  return null;
}

const HOW_TO_MAKE_ONE = 'printf \'whsec_%s\' "$(openssl rand -base64 32)" makes one';

/** Also true for one that could not be read: that has been reported. */
function isGiven(reader: Reader, name: 'ALERT_WEBHOOK_URL' | 'ALERT_WEBHOOK_SECRET'): boolean {
  return reader.optional(name) !== null || reader.optional(`${name}_FILE`) !== null;
}

/** Its text is never shown: addresses of webhooks often hold a token. */
function checkUrl(given: Given, reader: Reader): void {
  const { findings, allowPlainHttp } = reader;
  const url = URL.canParse(given.text) ? new URL(given.text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    findings.problem({
      where: given.where,
      what: 'is no web address',
      remedy: 'give the receiver’s address, such as https://hooks.example/mirror',
    });
    return;
  }
  for (const part of partsOf(given.text, url)) findings.hide(part);
  if (url.username !== '' || url.password !== '') {
    findings.problem({
      where: given.where,
      what: 'contains a user name or password, which are not sent',
      remedy: 'leave them out; the signature proves who sends',
    });
  }
  if (!mayCarryKey(url, allowPlainHttp)) {
    findings.problem({
      where: given.where,
      what: 'would get alerts unencrypted',
      remedy: 'use https://, or set ALLOW_PLAIN_HTTP=true if you trust every network between',
    });
  }
}

/** What of the address may be a token, pasted elsewhere too: all but the host, as it is written and as it is meant. */
function partsOf(text: string, url: URL): readonly string[] {
  const parts = [text, url.href].flatMap((whole) => whole.split(/[/?&=#:@]+/));
  return parts.filter((part) => part.length >= 8 && part.toLowerCase() !== url.hostname);
}

/** The form of Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes. */
function checkSecret(given: Given, reader: Reader): void {
  const [, base64 = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(given.text) ?? [];
  // It may also be pasted elsewhere without the prefix.
  reader.findings.hide(given.text.replace(/^whsec_/, ''));
  const bytes = Buffer.from(base64, 'base64');
  // Node skips what is not base64, so only the way back proves that all of it was.
  const whole = bytes.toString('base64').replace(/=+$/, '') === base64.replace(/=+$/, '');
  if (whole && bytes.length >= 24 && bytes.length <= 64) return;
  reader.findings.problem({
    where: given.where,
    what: 'is no secret of the Standard Webhooks form: whsec_ and the base64 of 24 to 64 bytes',
    remedy: `copy it again from the receiver; ${HOW_TO_MAKE_ONE}`,
  });
}
