import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { program } from '../../src/cli/program.js';
import { useMirror } from '../support/mirror.js';
import { folder, MAIN } from './support.js';

const mirror = useMirror();
/** Commands in messages, and up to two words of each. */
const QUOTED = /`seller-mirror ([a-z]+(?: [a-z]+)?)/g;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What a command says on stderr. */
function saidBy(
  command: string,
  args: readonly string[],
  { cwd = folder(), env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<string> {
  const { PATH, HOME } = process.env;
  const settings = { PATH, HOME, DATABASE_URL: mirror().databaseUrl, ...env };
  return new Promise((resolve) => {
    execFile(command, [...args], { cwd, env: settings }, (_, __, stderr) => resolve(stderr));
  });
}

function linkTo(place: string): string {
  const path = join(folder(), place);
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(MAIN, path);
  return path;
}

describe('a remedy', () => {
  it('names commands as the program was started, so that they work when pasted', async () => {
    const asked = ['runs', 'show', '4711'];
    const remedy = (program: string): string => `→ \`${program} runs\` lists them`;
    const installed = linkTo('bin/seller-mirror');
    expect(await saidBy(process.execPath, [installed, ...asked])).toContain(
      remedy('seller-mirror'),
    );
    const local = linkTo('node_modules/.bin/seller-mirror');
    expect(await saidBy(process.execPath, [local, ...asked])).toContain(
      remedy('npx seller-mirror'),
    );
    const inPackage = { cwd: ROOT };
    expect(await saidBy(process.execPath, ['dist/cli/main.js', ...asked], inPackage)).toContain(
      remedy('node dist/cli/main.js'),
    );
    expect(await saidBy('npm', ['start', '--', ...asked], inPackage)).toContain(
      remedy('npm start --'),
    );
    const script = { npm_lifecycle_event: 'mirror', npm_lifecycle_script: 'seller-mirror' };
    expect(await saidBy(process.execPath, [local, ...asked], { env: script })).toContain(
      remedy('npm run mirror --'),
    );
  });

  it('names the data folder that the environment names, which the next command needs too', async () => {
    const installed = linkTo('usr/bin/seller-mirror');
    const env = { DATA_DIR: 'other data', DATABASE_URL: '' };
    expect(await saidBy(process.execPath, [installed, 'backup', 'x.tar.gz'], { env })).toContain(
      "`DATABASE_URL= DATA_DIR='other data' seller-mirror sync` creates one",
    );
  });

  it('names no command that is not there', async () => {
    const { commands } = await program();
    const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
    const quoted = files
      .filter((file) => file.endsWith('.ts') && !file.startsWith(join('store', 'generated')))
      .flatMap((file) => [...readFileSync(join(ROOT, 'src', file), 'utf8').matchAll(QUOTED)])
      .map(([, words = '']) => words.trim().split(' '));
    expect(quoted.length).toBeGreaterThan(30);
    for (const words of quoted) {
      const [name, sub] = words;
      const command = commands.find((one) => one.name() === name);
      expect(command, words.join(' ')).toBeDefined();
      // Where there is no subcommand of this name, the word is an argument.
      const takesWords = (command?.registeredArguments.length ?? 0) > 0;
      const isThere = command?.commands.some((one) => one.name() === sub) ?? false;
      expect(sub === undefined || takesWords || isThere, words.join(' ')).toBe(true);
    }
  });

  it('is so for wrong usage too', async () => {
    const local = linkTo('other/node_modules/.bin/seller-mirror');
    expect(await saidBy(process.execPath, [local, 'audits', 'show', 'x'])).toContain(
      '`npx seller-mirror audits list` shows them',
    );
    expect(await saidBy(process.execPath, [local, 'sync', 'item'])).toContain(
      'for example: `npx seller-mirror sync item 4711`',
    );
  });
});
