import { Cluster, type Redis } from 'ioredis';

const OLDEST = [6, 2] as const;

/**
 * What a server's own report says that the queue can't rely on, in words. Empty when all is well, or
 * when the report says nothing.
 * @param info the reply to INFO
 */
export function warningsIn(info: string): string[] {
  const facts = new Map(
    info.split(/\r?\n/).map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
    }),
  );
  const warnings: string[] = [];
  const version = facts.get('redis_version');
  if (version !== undefined && isOlder(version)) {
    warnings.push(`it is version ${version}; at least ${OLDEST.join('.')} is needed`);
  }
  const policy = facts.get('maxmemory_policy');
  if (policy !== undefined && policy !== 'noeviction') {
    warnings.push(
      `maxmemory-policy is ${policy}, so that it may throw jobs away; set it to noeviction`,
    );
  }
  if (facts.get('aof_enabled') === '0') {
    warnings.push(
      'it keeps no append-only file, so that a crash may lose the latest jobs; set appendonly yes',
    );
  }
  return warnings;
}

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
}

/** The warnings of all masters; none of one that does not let itself be asked. */
export async function warningsOf(client: Redis | Cluster): Promise<string[]> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client];
  const infos = await Promise.all(nodes.map((node) => node.info().catch(() => '')));
  return [...new Set(infos.flatMap(warningsIn))];
}
