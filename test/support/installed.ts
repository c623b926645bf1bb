import { spawnSync } from 'node:child_process';

/** Whether a program that `.ci/run` installs is here. In CI always true, so that its absence fails the tests. */
export function isInstalled(program: string): boolean {
  if (process.env['CI'] !== undefined && process.env['CI'] !== '') return true;
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
}
