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

/** The password alone, since a driver's message may show it without the address around it. */
function passwordOf(url: Secret): Secret | null {
  if (!URL.canParse(url.reveal())) return null;
  const { password, searchParams } = new URL(url.reveal());
  const text = password === '' ? (searchParams.get('password') ?? '') : decoded(password);
  return text === '' ? null : new Secret(text);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a bare percent sign
  }
}
