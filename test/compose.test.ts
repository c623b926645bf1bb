import { execFileSync, spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createNetServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { program } from '../src/cli/program.js';
import { defaultOf, readConfig, SETTINGS, type Config } from '../src/config/index.js';
import { interpolate, readCompose, variablesIn, type ComposeService } from './support/compose.js';
import { run } from './cli/support.js';
import { databaseAt, query, testServer } from './support/postgres.js';
import { hasRedis, redisTitle } from './support/redis.js';
import { isInstalled } from './support/installed.js';

const whole = await program();

const root = new URL('../', import.meta.url);
const composeUrl = new URL('docker-compose.yml', root);
const text = readFileSync(composeUrl, 'utf8');
const dockerfile = readFileSync(new URL('Dockerfile', root), 'utf8');
const compose = readCompose(composeUrl);
const services = Object.entries(compose.services);
/** The services that run this product. */
const ours = services.filter(([, service]) => service.image === 'seller-mirror');
const settings = Object.keys(SETTINGS);
const secretSettings = settings.filter((name) => `${name}_FILE` in SETTINGS);

function serviceOf(name: string): ComposeService {
  const service = compose.services[name];
  if (service === undefined) throw new Error(`there is no service ${name}`);
  return service;
}

/** `1m`, `30s` in seconds. */
function seconds(duration: string | undefined): number {
  const [, amount, unit] = /^(\d+)(s|m)$/.exec(duration ?? '') ?? [];
  return Number(amount) * (unit === 'm' ? 60 : 1);
}

describe('docker-compose.yml', () => {
  it('starts the dashboard and the API only with their profiles, because they need accounts and tokens', () => {
    const profiles = services.map(([name, service]) => [name, service.profiles?.join() ?? '']);
    expect(Object.fromEntries(profiles)).toEqual({
      ...{ postgres: '', redis: '', migrate: '', scheduler: '', worker: '' },
      ...{ dashboard: 'dashboard', api: 'api', caddy: 'dashboard' },
    });
  });

  it('lets browsers reach the dashboard only through Caddy, which has TLS', () => {
    expect(serviceOf('dashboard').ports).toBeUndefined();
    const { content = '' } = compose.configs['Caddyfile'] ?? {};
    const lines = (url: string): string[] =>
      interpolate(content, { DASHBOARD_URL: url }).split('\n');
    expect(lines('')[0]).toBe('https://localhost {');
    expect(lines('https://mirror.example')[0]).toBe('https://mirror.example {');
    const [, port] =
      /:(\d+)$/.exec(serviceOf('dashboard').environment?.['DASHBOARD_LISTEN'] ?? '') ?? [];
    expect(lines('')[1]?.trim()).toBe(`reverse_proxy dashboard:${port}`);
  });

  it.each(services)('restarts %s, limits its logs and checks its health', (name, service) => {
    // `migrate` ends by itself. Endless restarts would hide its failure.
    expect(service.restart).toBe(name === 'migrate' ? 'on-failure:3' : 'unless-stopped');
    expect(service.logging.driver).toBe('local');
    if (name === 'migrate') {
      // It serves no health endpoint, so the image's check would fail.
      expect(service.healthcheck).toEqual({ disable: true });
    } else if (service.image === 'seller-mirror') {
      // It uses the check of the image, which is tested below.
      expect(service.healthcheck).toBeUndefined();
    } else {
      expect(service.healthcheck).toHaveProperty('test');
    }
  });

  it.each(ours)('gives %s an existing command, no privileges, and time to stop', (name, one) => {
    const [command, ...rest] = one.command ?? [];
    expect(whole.commands.map((each) => each.name())).toContain(command);
    expect(rest).toEqual([]);
    expect(one.cap_drop).toEqual(['ALL']);
    expect(one.security_opt).toEqual(['no-new-privileges:true']);
    expect(one.init).toBe(true);
    expect(one).toMatchObject({ read_only: true, tmpfs: ['/tmp'] });
    if (name === 'migrate') return;
    const timeout = defaultOf('SHUTDOWN_TIMEOUT');
    expect(seconds(one.stop_grace_period)).toBeGreaterThan(Number(timeout));
    expect(one.depends_on).toEqual({
      migrate: { condition: 'service_completed_successfully' },
      redis: { condition: 'service_healthy' },
    });
  });

  it('allows any number of workers, without ports, and with one writable volume, for feeds', () => {
    const worker = serviceOf('worker');
    expect(worker.ports).toBeUndefined();
    // Workers share it. Only one of them delivers a feed at a time.
    const writable = worker.volumes?.filter((volume) => !volume.endsWith(':ro'));
    expect(writable?.map((volume) => interpolate(volume, {}))).toEqual(['feeds:/app/feeds']);
    expect(dockerfile).toMatch(/^RUN mkdir .*\bfeeds\b.* && chown node:node .*\bfeeds\b/m);
  });

  it('limits the memory of each service that grows, so that one can’t take the machine’s', () => {
    const without = services.filter(([, service]) => service.mem_limit === undefined);
    expect(without.map(([name]) => name)).toEqual(['caddy']);
    // PostgreSQL reports too little of it as a full disk.
    expect(serviceOf('postgres').shm_size).toBe('256mb');
  });

  it('opens no port to other machines by default', () => {
    const ports = services.flatMap(([, service]) => service.ports ?? []);
    expect(ports.length).toBeGreaterThan(0);
    for (const port of ports) expect(interpolate(port, {})).toMatch(/^127\.0\.0\.1:/);
  });

  it('declares exactly the volumes, secrets and configs that it uses', () => {
    const named = services
      .flatMap(([, service]) => service.volumes ?? [])
      .map((volume) => interpolate(volume, {}))
      .filter((volume) => !volume.startsWith('.'))
      .map((volume) => volume.split(':')[0]);
    expect(new Set(named)).toEqual(new Set(Object.keys(compose.volumes)));
    const secrets = services.flatMap(([, service]) => service.secrets ?? []);
    expect(new Set(secrets)).toEqual(new Set(Object.keys(compose.secrets)));
    const configs = services.flatMap(([, service]) => service.configs ?? []);
    expect(new Set(configs.map(({ source }) => source))).toEqual(
      new Set(Object.keys(compose.configs)),
    );
  });

  it('gives each service exactly the secrets that it names', () => {
    for (const [name, service] of services) {
      const { environment = {}, secrets = [], configs = [], command = [], healthcheck } = service;
      const scripts = configs.map(({ source }) => compose.configs[source]?.content);
      const words = JSON.stringify([environment, command, healthcheck ?? null, scripts]);
      const named = [...words.matchAll(/\/run\/secrets\/([\w.]+)/g)].map(([, secret]) => secret);
      const folders = ['sellers', 'feeds'];
      expect(new Set(named.filter((one) => !folders.includes(one ?? ''))), name).toEqual(
        new Set(secrets),
      );
    }
  });

  it('contains no secret, not even in the environment of a service', () => {
    expect(secretSettings).toContain('DATABASE_URL');
    for (const [name, { environment = {} }] of services) {
      for (const each of [...secretSettings, 'POSTGRES_PASSWORD']) {
        expect(Object.keys(environment), name).not.toContain(each);
      }
    }
    const used = variablesIn(text);
    for (const each of secretSettings) expect(used).not.toContain(each);
    expect(text).not.toMatch(/:\/\/\w+:\w+@/);
  });

  it('passes on every setting, and has six variables of its own', () => {
    /** Settings that are fixed here, with the reason. */
    const exceptions: Readonly<Record<string, string>> = {
      DATA_DIR: 'there is no embedded server',
      SHUTDOWN_TIMEOUT: 'stop_grace_period is made for the default',
      QUEUE_PREFIX: 'the Redis is its own',
      LOG_FORMAT: 'no terminal, so JSON',
      DASHBOARD_TLS_CERT_FILE: 'Caddy has the certificate',
      DASHBOARD_TLS_KEY_FILE: 'Caddy has the key',
    };
    const ofOne = {
      dashboard: ['DASHBOARD_LISTEN', 'DASHBOARD_BEHIND_PROXY'],
      api: ['API_LISTEN'],
    };
    const expected = settings.filter(
      (name) => !secretSettings.includes(name) && !(name in exceptions),
    );
    for (const name of ['scheduler', 'worker', 'dashboard', 'api']) {
      const given = Object.keys(serviceOf(name).environment ?? {});
      const ofOthers = Object.entries(ofOne).flatMap(([of, names]) => (of === name ? [] : names));
      const own = expected.filter((one) => !ofOthers.includes(one));
      expect(new Set(given)).toEqual(new Set(own));
    }
    expect(Object.keys(serviceOf('migrate').environment ?? {})).toEqual(['DATABASE_URL_FILE']);
    const own = variablesIn(text).filter((name) => !settings.includes(name));
    expect(new Set(own)).toEqual(
      new Set([
        ...['HEALTH_HOST', 'POSTGRES_PORT', 'DASHBOARD_ADDRESS', 'API_ADDRESS', 'FEEDS_FOLDER'],
        'MEMORY_LIMIT',
      ]),
    );
  });
});

const SETUP = 'scripts/compose-setup.sh';

function runSetup(folder: string, input: string, address = 'https://market.example') {
  return spawnSync('sh', [SETUP, address], { cwd: folder, input, encoding: 'utf8' });
}

/** A folder that was set up as the file's instructions say. */
function setUp(): string {
  const folder = mkdtempSync(join(tmpdir(), 'compose-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  expect(text).toContain(`sh ${SETUP} https://market.example `);
  for (const file of ['docker-compose.yml', SETUP]) cpSync(new URL(file, root), join(folder, file));
  expect(runSetup(folder, 'your API key\n')).toMatchObject({ status: 0, stderr: '' });
  return folder;
}

/** The configuration of a service with its secrets mounted. */
function configOf(folder: string, name: string, dotEnv: Readonly<Record<string, string>>): Config {
  const { environment = {}, secrets = [], volumes = [] } = serviceOf(name);
  const mounted = mkdtempSync(join(folder, 'run-'));
  for (const secret of secrets) {
    const file = interpolate(compose.secrets[secret]?.file ?? '', dotEnv);
    if (file !== '/dev/null') cpSync(join(folder, file), join(mounted, secret));
  }
  for (const volume of volumes.filter((one) => one.endsWith(':ro'))) {
    const [from = '', to = ''] = volume.split(':');
    cpSync(join(folder, from), join(mounted, basename(to)), { recursive: true });
  }
  const values = Object.entries(environment).map(([key, value]) => [
    key,
    interpolate(value, dotEnv).replace('/run/secrets', mounted),
  ]);
  const env = Object.fromEntries(values) as Record<string, string>;
  const files = {
    read: (path: string) => readFileSync(path),
    find: (path: string) => (existsSync(path) ? { isFolder: false, isOpen: false } : null),
  };
  return readConfig(env, { cwd: mounted, files, needs: 'sellers' });
}

describe('the set-up of docker-compose.yml', () => {
  it('makes private secrets, keeps what exists when it runs again, and refuses a missing address or key', () => {
    const folder = setUp();
    const files = Object.values(compose.secrets).map(({ file }) => interpolate(file, {}));
    const mode = (path: string): number => statSync(join(folder, path)).mode & 0o777;
    expect(mode('secrets')).toBe(0o700);
    for (const path of files) if (path !== '/dev/null') expect(mode(path), path).toBe(0o644);
    const contents = () =>
      [...files, '.env'].map((file) => readFileSync(resolve(folder, file), 'utf8'));
    const before = contents();
    const { status, stdout } = runSetup(folder, 'another key\n');
    expect(status).toBe(0);
    expect(contents()).toEqual(before);
    for (const secret of before.filter((one) => one !== '')) expect(stdout).not.toContain(secret);
    expect(runSetup(folder, '', 'market.example').stderr).toMatch(/^error: give the address/);
    expect(runSetup(folder, '', 'https://other.example').stderr).toBe(
      'error: MARKETPLACE_URL in .env is https://market.example, not https://other.example: give that address, or change .env\n',
    );
    expect(runSetup(folder, '', 'https://market.example/')).toMatchObject({ status: 0 });
    appendFileSync(join(folder, '.env'), 'MARKETPLACE_API_KEY_FILE=main.key\n');
    expect(runSetup(folder, '').stderr).toMatch(/^error: MARKETPLACE_API_KEY_FILE in .env names/);
    writeFileSync(join(folder, '.env'), 'SELLERS_FILE=./secrets/sellers/sellers.json\n');
    expect(runSetup(folder, '')).toMatchObject({ status: 0 });
    const several = readFileSync(join(folder, '.env'), 'utf8');
    expect(several, 'an address beside several sellers is refused').not.toContain(
      'MARKETPLACE_URL',
    );
    rmSync(join(folder, '.env'));
    rmSync(join(folder, 'secrets/marketplace_api_key'));
    expect(runSetup(folder, '').stderr).toBe('error: the API key is empty\n');
  });

  it('gives each service a valid and consistent configuration', () => {
    const folder = setUp();
    const dotEnv = readFileSync(join(folder, '.env'), 'utf8').trim().split('=', 2);
    const password = readFileSync(join(folder, 'secrets/postgres_password'), 'utf8').trim();
    for (const name of ['scheduler', 'worker', 'dashboard']) {
      const config = configOf(folder, name, Object.fromEntries([dotEnv]) as Record<string, string>);
      const [seller] = config.sellers;
      expect(seller?.url.href, name).toBe('https://market.example/');
      expect(seller?.key.reveal()).toBe('your API key');
      const database = new URL(config.databaseUrl?.reveal() ?? '');
      expect([database.hostname, database.password]).toEqual(['postgres', password]);
      expect(config.redis).toMatchObject({ host: 'redis', port: 6379 });
      const redis = readFileSync(join(folder, 'secrets/redis.conf'), 'utf8');
      expect(redis).toBe(`requirepass ${config.redis?.password?.reveal()}\n`);
      expect(config.health).toEqual({ host: '127.0.0.1', port: 8790, chosen: true });
      expect([config.alertMail, config.alertWebhook]).toEqual([null, null]);
    }
  });

  it('allows several sellers, feeds, alerts and other settings', () => {
    const folder = setUp();
    const seller = { name: 'second', url: 'https://market.example', keyFile: 'second.key' };
    const views = ['items'];
    const bi = { name: 'bi', target: 'postgresql://bi@pg.example/bi', passwordFile: 'bi.password' };
    const feed = { ...bi, views };
    const lake = { name: 'lake', folder: '/app/feeds/lake', views };
    const script = `
      printf '%s' '${JSON.stringify({ sellers: [seller] })}' > secrets/sellers/sellers.json
      printf 'k3y-of-the-second' > secrets/sellers/second.key
      printf '%s' '${JSON.stringify({ feeds: [feed, lake] })}' > secrets/feeds/feeds.json
      printf 'of-the-feed' > secrets/feeds/bi.password
      printf 'https://hooks.example/x' > hook_url
      printf 'whsec_%s' "$(openssl rand -base64 32)" > hook_secret
      printf 'smtps://me%%40shop.example:pass-word@mail.example' > smtp`;
    execFileSync('sh', ['-euc', script], { cwd: folder });
    const config = configOf(folder, 'worker', {
      SELLERS_FILE: './secrets/sellers/sellers.json',
      FEEDS_FILE: './secrets/feeds/feeds.json',
      ALERT_WEBHOOK_URL_FILE: './hook_url',
      ALERT_WEBHOOK_SECRET_FILE: './hook_secret',
      ALERT_EMAIL: 'you@shop.example',
      SMTP_URL_FILE: './smtp',
      DASHBOARD_URL: 'https://mirror.example',
      WORKER_CONCURRENCY: '9',
      HEALTH_HOST: '0.0.0.0',
    });
    expect(config.sellers.map(({ name }) => name)).toEqual(['second']);
    expect(config.feeds.map(({ name }) => name)).toEqual(['bi', 'lake']);
    expect(config.alertWebhook?.url.reveal()).toBe('https://hooks.example/x');
    expect(config.alertMail).toMatchObject({ from: 'me@shop.example', to: ['you@shop.example'] });
    expect(config.dashboard.url).toBe('https://mirror.example');
    expect(config.workerConcurrency).toBe(9);
    expect(config.health?.host).toBe('0.0.0.0');
  });
});

const hasPsql = isInstalled('psql');

describe.skipIf(!hasPsql || process.env['TEST_DATABASE_URL'])(
  'the PostgreSQL of docker-compose.yml',
  () => {
    it('gives the product an ordinary role, and lets no superuser log in over the network', async () => {
      const secrets = join(setUp(), 'secrets');
      const { adminUrl } = testServer;
      // Stands in for the image’s superuser, with the same password.
      const password = readFileSync(join(secrets, 'postgres_password'), 'utf8').trim();
      await query(adminUrl, `CREATE ROLE boss SUPERUSER LOGIN PASSWORD '${password}'`);
      onTestFinished(async () => {
        await query(adminUrl, 'DROP DATABASE IF EXISTS mirror WITH (FORCE)');
        await query(adminUrl, 'DROP ROLE IF EXISTS mirror, boss');
      });
      const at = (username: string, database: string): string =>
        Object.assign(new URL(databaseAt(adminUrl, database)), { username, password }).href;
      const [config] = serviceOf('postgres').configs ?? [];
      expect(config?.target).toMatch(/^\/docker-entrypoint-initdb\.d\/.*\.sql$/);
      const script = compose.configs[config?.source ?? '']?.content ?? '';
      const ended = spawnSync('psql', ['-v', 'ON_ERROR_STOP=1', '-X', at('boss', 'postgres')], {
        input: script.replace('/run/secrets', secrets),
        encoding: 'utf8',
      });
      expect(ended).toMatchObject({ status: 0, stderr: '' });
      await expect(query(at('boss', 'postgres'), 'SELECT 1')).rejects.toThrow('password');

      const given = new URL(readFileSync(join(secrets, 'database_url'), 'utf8'));
      const env = { DATABASE_URL: at(given.username, given.pathname.slice(1)) };
      expect(new URL(env.DATABASE_URL).password).toBe(given.password);
      expect((await run(['migrate'], env)).stderr).toBe('');
      // It refuses a superuser.
      expect(await run(['sql', 'select 1'], env)).toMatchObject({ code: 0, stderr: '' });
    });
  },
);

describe.skipIf(!hasRedis)(redisTitle('the Redis of docker-compose.yml'), () => {
  it('starts with its password and with persistence, and its check detects failure', async () => {
    const folder = setUp();
    const local = (words: string): string =>
      interpolate(words, {}).replace('/run/secrets', join(folder, 'secrets'));
    const probe = createNetServer().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const port = String((probe.address() as AddressInfo).port);
    await new Promise((resolve) => probe.close(resolve));
    const { command = [], healthcheck } = serviceOf('redis');
    const [server = '', ...args] = command.map(local);
    const here = ['--port', port, '--bind', '127.0.0.1', '--dir', folder];
    const redis = spawn(server, [...args, ...here], { stdio: 'ignore' });
    onTestFinished(async () => {
      redis.kill('SIGKILL');
      await once(redis, 'exit');
    });
    const check = healthcheck !== undefined && 'test' in healthcheck ? healthcheck.test[1] : '';
    const sh = (script: string): SpawnSyncReturns<string> =>
      spawnSync('sh', ['-c', script.replaceAll('redis-cli', `redis-cli -p ${port}`)], {
        encoding: 'utf8',
      });
    const health = local(check ?? '');
    await expect.poll(() => sh(health).stdout, { timeout: 20_000 }).toBe('PONG\n');
    expect(sh(health).status).toBe(0);
    expect(sh('redis-cli -e ping').status).not.toBe(0);
    const asked = ['maxmemory-policy', 'appendonly'].map((name) => `config get ${name}`);
    const answers = asked.map((words) => sh(health.replace('ping', words)).stdout);
    expect(answers).toEqual(['maxmemory-policy\nnoeviction\n', 'appendonly\nyes\n']);
    sh(health.replace('ping', 'shutdown'));
    await expect.poll(() => sh(health).status, { timeout: 20_000 }).not.toBe(0);
  });
});

/** The command of the image's health check. */
function imageCheck(): string[] {
  const [, words] = /^HEALTHCHECK[^\n]*\\\n\s*CMD (\[.*\])$/m.exec(dockerfile) ?? [];
  return JSON.parse(words ?? '[]') as string[];
}

describe('an override file in docs/docker.md', () => {
  const page = readFileSync(new URL('docs/docker.md', root), 'utf8');
  const blocks = [...page.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
  const tag = (name: string, kind?: 'map' | 'seq') => ({
    tag: name,
    ...(kind === undefined ? {} : { collection: kind }),
    resolve: (value: unknown) => value,
  });
  const customTags = [tag('!reset'), tag('!reset', 'map'), tag('!override', 'seq')];

  it('changes only services that exist, and leaves out PostgreSQL together with every wait for it', () => {
    for (const block of blocks) {
      const { services: changed } = parse(block, { customTags }) as { services: object };
      expect(Object.keys(changed).length, block).toBeGreaterThan(0);
      for (const name of Object.keys(changed)) serviceOf(name);
    }
    const waiting = services.filter(
      ([, { depends_on: on }]) => on !== undefined && 'postgres' in on,
    );
    const [without = ''] = blocks;
    expect(waiting.map(([name]) => name)).toEqual(['migrate']);
    expect(without).toContain('migrate:\n    depends_on: !reset {}');
  });
});

describe('Dockerfile', () => {
  it('installs what package-lock.json names, before the sources, so that a change of these installs nothing', () => {
    const stages = dockerfile.split(/^FROM /m).slice(1);
    for (const stage of stages.slice(0, 2)) {
      const [, before = ''] = /^([\s\S]*?)npm ci/m.exec(stage) ?? [];
      const copied = [...before.matchAll(/^COPY (.+) \S+$/gm)].map(([, words]) => words);
      expect(copied).toEqual(['package.json package-lock.json .npmrc']);
    }
    expect(dockerfile).not.toMatch(/npm install/);
  });

  it('copies only files that exist and are not ignored', () => {
    const kept = readFileSync(new URL('.dockerignore', root), 'utf8').split('\n');
    const sources = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
      ([, words = '']) => words.split(' '),
    );
    expect(sources.length).toBeGreaterThan(5);
    expect(kept[0]).toBe('*');
    for (const source of sources) {
      expect(existsSync(new URL(source, root)), source).toBe(true);
      expect(kept).toContain(`!${source}`);
    }
  });

  it('runs the package’s program as an unprivileged user, with `run` by default', () => {
    const manifest = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
      bin: Record<string, string>;
    };
    const last = dockerfile.slice(dockerfile.lastIndexOf('FROM '));
    // A name on PATH, so that messages name commands as people type them here.
    const link = `ln -s /app/${manifest.bin['seller-mirror']} /usr/local/bin/seller-mirror`;
    expect(last).toContain(link);
    expect(last).toContain('ENTRYPOINT ["seller-mirror"]');
    expect(last).toMatch(/^USER node$/m);
    expect(last).toContain('CMD ["run"]');
    expect(whole.commands.map((command) => command.name())).toContain('run');
  });

  it('checks health at the product’s port, with and without Compose', () => {
    const config = readConfig({}, { cwd: tmpdir(), needs: 'store' });
    const asked = /http:\/\/127\.0\.0\.1:(\d+)\/healthz/.exec(imageCheck().join(' '))?.[1];
    expect(asked).toBe(String(config.health?.port));
    expect(dockerfile).toContain(`HEALTH_LISTEN=127.0.0.1:${asked}\n`);
    expect(serviceOf('worker').environment?.['HEALTH_LISTEN']).toMatch(new RegExp(`:${asked}$`));
  });

  it('has a check that detects an unhealthy and a missing server', async () => {
    let status = 200;
    const server = createServer((_, response) => response.writeHead(status).end()).listen(0);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const check = async (): Promise<number | null> => {
      const [, ...words] = imageCheck().map((word) => word.replace(':8790', `:${port}`));
      const [code] = (await once(spawn(process.execPath, words), 'exit')) as [number | null];
      return code;
    };
    expect(await check()).toBe(0);
    status = 503;
    expect(await check()).toBe(1);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect(await check()).toBe(1);
  });
});
