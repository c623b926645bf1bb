import { statSync } from 'node:fs';
import { Secret } from '../domain/secret.js';
import { checkDatabaseUrl } from './address.js';
import type { Reader } from './reader.js';
import { readSecretSetting } from './secret-setting.js';
import { absolutePath } from './values.js';

/** Where the mirror is kept. */
export function readStore(reader: Reader): { databaseUrl: Secret | null; dataDir: string } {
  return { databaseUrl: readDatabaseUrl(reader), dataDir: readDataDir(reader) };
}

function readDatabaseUrl(reader: Reader): Secret | null {
  const given = readSecretSetting(reader, 'DATABASE_URL', 'the database’s address');
  if (given === null) return null;
  checkDatabaseUrl(given, reader.findings);
  return new Secret(given.text);
}

function readDataDir(reader: Reader): string {
  const given = reader.given('DATA_DIR');
  const path = absolutePath(reader.options.cwd, given.text);
  if (isNoFolder(path)) {
    reader.findings.problem({
      where: given.where,
      value: given.text,
      what: 'is no folder',
      remedy: 'name a folder; it is made when it is not there',
    });
  }
  return path;
}

/** Whether something else is there. What can't even be looked at, the store explains. */
function isNoFolder(path: string): boolean {
  try {
    return !statSync(path).isDirectory();
  } catch {
    return false;
  }
}
