import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serve } from '../../src/cli/serve.js';
import { readConfig } from '../../src/config/index.js';
import { disk } from '../../src/config/load.js';
import type { Mirror } from '../support/mirror.js';
import { addAccount, loginLink, type Role } from './dashboard.js';

/** The product on a test's database: worker and dashboard, as started by `run`. */
export interface Served {
  readonly url: string;
  /** Empty without API_LISTEN. */
  readonly apiUrl: string;
  /** Makes a login link for an operator. */
  link(): Promise<string>;
  /** Adds an account named like its role, with `PASSWORD`. */
  addUser(role: Role): Promise<void>;
  stop(): Promise<void>;
}

interface ServedSeller {
  readonly name: string;
  /** URL of the marketplace. */
  readonly url: string;
  readonly key: string;
}

/** Starts the product. @param settings further settings, such as `REQUESTS_PER_MINUTE` */
export async function serveProduct(
  mirror: Mirror,
  sellers: readonly ServedSeller[],
  settings: Readonly<Record<string, string>> = {},
): Promise<Served> {
  const folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-served-`));
  const file = join(folder, 'sellers.json');
  const listed = sellers.map(({ name, url }) => ({ name, url, keyFile: `${name}.key` }));
  await writeFile(file, JSON.stringify({ sellers: listed }));
  for (const { name, key } of sellers) {
    await writeFile(join(folder, `${name}.key`), key, { mode: 0o600 });
  }
  const config = readConfig(
    {
      DATABASE_URL: mirror.databaseUrl,
      SELLERS_FILE: file,
      DATA_DIR: folder,
      REQUESTS_PER_MINUTE: '0',
      SYNC_CRON: 'off',
      CATCH_UP: 'false',
      DASHBOARD_LISTEN: '127.0.0.1:0',
      HEALTH_LISTEN: 'off',
      LOG_LEVEL: 'silent',
      ...settings,
    },
    { cwd: folder, files: disk, needs: 'sellers' },
  );
  const roles = { scheduler: false, worker: true, dashboard: true, api: true };
  const service = await serve('test', roles, new AbortController().signal, config);
  const { dashboardUrl } = service;
  if (dashboardUrl === null) throw new Error('the dashboard is off');
  return {
    url: dashboardUrl,
    apiUrl: service.apiUrl ?? '',
    link: async () => dashboardUrl + (await loginLink(mirror, 'ada@laptop')),
    addUser: (role) => addAccount(mirror, role, role),
    async stop() {
      await service.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
