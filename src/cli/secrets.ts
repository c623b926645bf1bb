import type { Config } from '../config/index.js';
import { Secret } from '../domain/secret.js';

/** Everything of the configuration that no line of a log may show. */
export function secretsOf(config: Config): readonly Secret[] {
  const { sellers, databaseUrl, redis, alerts } = config;
  return [
    ...sellers.map(({ key }) => key),
    databaseUrl,
    databaseUrl === null ? null : passwordOf(databaseUrl),
    redis?.password ?? null,
    redis?.sentinelPassword ?? null,
    alerts?.url ?? null,
    alerts?.secret ?? null,
  ].filter((secret) => secret !== null);
}

function passwordOf(url: Secret): Secret | null {
  const password = URL.canParse(url.reveal()) ? new URL(url.reveal()).password : '';
  return password === '' ? null : new Secret(decodeURIComponent(password));
}
