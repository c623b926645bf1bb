import { travelsInHeader } from '../domain/address.js';
import { Secret } from '../domain/secret.js';
import type { Findings } from './problems.js';
import { readSecretFile } from './secret-file.js';
import { absolutePath, type Given } from './values.js';

/** Where a key may come from; exactly one is wanted. */
export interface KeySources {
  readonly direct: Given | null;
  readonly file: Given | null;
  /** Folder that a relative file is relative to. */
  readonly base: string;
  /** What to say when there is none. */
  readonly missing: Given & { readonly remedy: string };
}

const KEY = 'the API key';

/** The key of one seller; null when there is none to be had, which has been reported. */
export function readKey(
  sources: KeySources,
  keyHeader: string | null,
  findings: Findings,
): Secret | null {
  const { direct, file, missing } = sources;
  if (direct !== null) findings.hide(direct.text);
  if (direct !== null && file !== null) {
    findings.problem({
      where: file.where,
      what: `and ${direct.where} are both given`,
      remedy: 'keep one of them',
    });
    return null;
  }
  const given = direct ?? readKeyFile(file, sources.base, findings);
  if (given === null) {
    if (file === null) {
      findings.problem({ where: missing.where, what: missing.text, remedy: missing.remedy });
    }
    return null;
  }
  checkKey(given, keyHeader, findings);
  return new Secret(given.text);
}

function readKeyFile(file: Given | null, base: string, findings: Findings): Given | null {
  if (file === null) return null;
  const text = readSecretFile(file, absolutePath(base, file.text), KEY, findings);
  return text === null ? null : { where: file.where, text };
}

/** Keys have no fixed format (field notes: requests): only what can't be one is refused. */
function checkKey(key: Given, keyHeader: string | null, findings: Findings): void {
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(key.text)) {
    findings.problem({
      where: key.where,
      what: 'holds line breaks or control characters within the key',
      remedy: 'copy the key again, by itself and whole',
    });
  } else if (keyHeader !== null && !travelsInHeader(key.text)) {
    findings.problem({
      where: key.where,
      what: 'holds characters that no request header can carry',
      remedy: 'copy the key again, or take MARKETPLACE_KEY_HEADER or keyHeader away',
    });
  }
}
