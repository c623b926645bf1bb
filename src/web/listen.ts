import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isLoopback } from '../domain/address.js';
import type { Log } from '../domain/log.js';

/** Where to listen. */
export interface HealthListen {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** False: nobody chose the port, so another will do when it is taken. */
  readonly chosen: boolean;
}

/** The health endpoints can't listen where they were told to. */
export class HealthListenError extends Error {
  override readonly name = 'HealthListenError';

  constructor(
    message: string,
    /** One sentence: what to do about it. */
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * Makes the server listen; on any free port when the one given is taken and nobody chose it.
 * @returns its address as a URL without a path
 * @throws {HealthListenError}
 */
export async function listen(server: Server, target: HealthListen, log: Log): Promise<string> {
  const { host, port, chosen } = target;
  try {
    await begin(server, host, port).catch(async (error: unknown) => {
      if (chosen || codeOf(error) !== 'EADDRINUSE') throw error;
      await begin(server, host, 0);
    });
  } catch (error) {
    throw explain(error, target);
  }
  const { port: used } = server.address() as AddressInfo;
  const url = `http://${inUrl(host)}:${used}`;
  if (!chosen && port !== 0 && used !== port) {
    log.warn(`port ${port} is taken: health and metrics are at ${url}`);
  }
  return url;
}

/** Whether only this machine can reach the server. */
export function isLocal(server: Server): boolean {
  return isLoopback(inUrl((server.address() as AddressInfo).address));
}

async function begin(server: Server, host: string, port: number): Promise<void> {
  server.listen({ host, port, exclusive: true });
  await once(server, 'listening');
}

function inUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown';
}

const NO_ADDRESS = [
  'is no address of this machine',
  'listen on 127.0.0.1, or on 0.0.0.0 for all its addresses',
] as const;

const PROBLEMS: Readonly<Record<string, readonly [problem: string, remedy: string]>> = {
  EADDRINUSE: ['is taken by another program', 'choose another port'],
  EACCES: ['is not for this user', 'choose a port from 1024 on'],
  EADDRNOTAVAIL: NO_ADDRESS,
  ENOTFOUND: NO_ADDRESS,
  EAI_AGAIN: NO_ADDRESS,
};

function explain(error: unknown, { host, port }: HealthListen): HealthListenError {
  const code = codeOf(error);
  const [problem, remedy] = PROBLEMS[code] ?? [`can’t be used (${code})`, 'choose another address'];
  return new HealthListenError(
    `${inUrl(host)}:${port}, the address of health and metrics, ${problem}`,
    `${remedy} in HEALTH_LISTEN, or turn them off with HEALTH_LISTEN=off`,
    { cause: error },
  );
}
