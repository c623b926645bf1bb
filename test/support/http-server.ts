import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import type { Certificate } from './certificate.js';

/** A received request. */
export interface Recorded {
  readonly method: string;
  /** Path and query. */
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** An ordinary reply, or a function that uses the bare socket. */
export type Answer =
  | {
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string | Buffer;
    }
  | { readonly raw: (socket: Socket) => void };

/** One answer to all requests, a list of answers whose last one repeats, or a function. */
export type Script = Answer | readonly Answer[] | ((request: Recorded, index: number) => Answer);

export interface ScriptedServer {
  readonly url: URL;
  readonly port: number;
  readonly requests: readonly Recorded[];
  /** Number of open connections. */
  connections(): number;
}

/** Starts a server on a free port of 127.0.0.1 that answers by a script. It stops when the test ends. */
export async function startServer(script: Script, tls?: Certificate): Promise<ScriptedServer> {
  const requests: Recorded[] = [];
  const sockets = new Set<Socket>();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const recorded = await record(request);
    requests.push(recorded);
    send(answerOf(script, recorded, requests.length - 1), response);
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    void serve(request, response);
  };
  const server: Server =
    tls === undefined ? createServer(listener) : createSecureServer(tls, listener);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: new URL(`${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`),
    port,
    requests,
    connections: () => sockets.size,
  };
}

async function record(request: IncomingMessage): Promise<Recorded> {
  return {
    method: request.method ?? '',
    url: new URL(request.url ?? '', 'http://server.invalid'),
    headers: request.headers as Record<string, string>,
    body: await text(request),
  };
}

function answerOf(script: Script, request: Recorded, index: number): Answer {
  if (typeof script === 'function') return script(request, index);
  if (!Array.isArray(script)) return script as Answer;
  const answers = script as readonly Answer[];
  return answers[Math.min(index, answers.length - 1)] ?? { status: 500 };
}

function send(answer: Answer, response: ServerResponse): void {
  if ('raw' in answer) {
    const { socket } = response;
    if (socket !== null) answer.raw(socket);
    return;
  }
  response.writeHead(
    answer.status ?? 200,
    answer.headers ?? { 'content-type': 'application/json' },
  );
  response.end(answer.body ?? '');
}
