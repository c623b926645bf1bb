import type { Reader } from './reader.js';
import { readSecretFile } from './secret-file.js';
import { absolutePath, type Given } from './values.js';

/** Each has a twin for a file that holds the value. */
type SecretName = 'DATABASE_URL' | 'REDIS_URL' | 'ALERT_WEBHOOK_URL' | 'ALERT_WEBHOOK_SECRET';

/**
 * A secret that is given itself or in a file; null when there is none. It shows in no message, and
 * giving it both ways is a problem.
 * @param what the secret is, for messages
 */
export function readSecretSetting(reader: Reader, name: SecretName, what: string): Given | null {
  const { findings } = reader;
  const direct = reader.optional(name);
  const file = reader.optional(`${name}_FILE`);
  if (direct !== null) findings.hide(direct.text);
  if (direct !== null && file !== null) {
    findings.problem({
      where: file.where,
      what: `and ${name} are both given`,
      remedy: 'keep one of them',
    });
    return null;
  }
  if (file === null) return direct;
  const path = absolutePath(reader.options.cwd, file.text);
  const text = readSecretFile(file, path, what, findings);
  return text === null ? null : { where: file.where, text };
}
