import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { codesMarket, codesOf, fileWith } from './codes-support.js';
import { useMirror } from '../support/mirror.js';
import { folder, run, settings } from './support.js';

const mirror = useMirror();

describe('a process of its own', () => {
  it('ends by itself after each command, with the exit code that the command has within another', async () => {
    const sim = await codesMarket(mirror());
    const env = settings(mirror().databaseUrl, sim.url);
    const list = fileWith(codesOf(sim, 5).join('\n'), 'txt');
    for (const args of [
      ['sync'],
      ['sync', 'item', '1001'],
      ['sync', '--queue'],
      ['codes', 'check', list],
      ['codes', 'show', codesOf(sim, 2)[1] ?? ''],
      ['codes', 'recheck', '--older-than', '30d'],
      ['audits'],
      ['audits', 'export', '1'],
      ['status', '--check'],
      ['runs'],
      ['runs', 'show', '999'],
      ['changes'],
      ['items'],
      ['sql', 'select 1'],
      ['export', 'items'],
      ['migrate'],
      ['prune', '--dry-run'],
      ['backup', join(folder(), 'backup')],
      ['doctor'],
      ['config'],
      ['completion', 'bash'],
      ['no-such-command'],
    ]) {
      const apart = await run(args, env, { spawned: true });
      const again = args[0] === 'backup' ? ['backup', join(folder(), 'another')] : args;
      const within = await run(again, env);
      expect(apart.code, `${args.join(' ')}: ${apart.stderr}`).toBe(within.code);
    }
  });
});
