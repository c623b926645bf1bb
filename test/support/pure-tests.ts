import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Whoever imports one of these waits for `dist` or for PostgreSQL. */
const ASKS = /test\/support\/test-run\.ts$/;
const HELPER = /^(?:import|export) [^;]*? from '(\.[^']+)\.js';/gm;

/** The quick tests that ask for neither `dist` nor a database, as paths in the project. */
export function pureTests(): string[] {
  const known = new Map<string, boolean>();
  const asks = (file: string): boolean => {
    const found = known.get(file);
    if (found !== undefined) return found;
    known.set(file, false); // ends circles
    const helpers = [...readFileSync(file, 'utf8').matchAll(HELPER)]
      .map(([, path = '']) => resolve(file, '..', `${path}.ts`))
      .filter((path) => path.startsWith(join(ROOT, 'test')));
    const result = ASKS.test(file) || helpers.some(asks);
    known.set(file, result);
    return result;
  };
  return readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts') && !path.endsWith('.long.test.ts'))
    .filter((path) => !asks(join(ROOT, 'test', path)))
    .map((path) => join('test', path));
}
