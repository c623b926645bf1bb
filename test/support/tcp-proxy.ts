import { once } from 'node:events';
import {
  connect,
  createServer,
  type AddressInfo,
  type NetConnectOpts,
  type Server,
  type Socket,
} from 'node:net';

/**
 * How the proxy treats connections. `pass`: forwards data. `refuse`: does not listen. `swallow`: accepts
 * connections but drops all data, like a firewall that has lost their state.
 */
export type ProxyMode = 'pass' | 'refuse' | 'swallow';

/** A proxy in front of a server, for breaking connections. */
export interface TcpProxy {
  readonly host: string;
  readonly port: number;
  set(mode: ProxyMode): Promise<void>;
  /** Drops all further data of open connections. New ones follow the mode. */
  forget(): void;
  /** Destroys all open connections. New ones follow the mode. */
  cut(): void;
  /** Sets the inspection of all data; null ends it. Where it returns false, all connections are cut. */
  inspect(next: Inspection | null): void;
  close(): Promise<void>;
}

/** Whether a chunk of data may pass. */
export type Inspection = (data: Buffer, isToServer: boolean) => boolean;

const HOST = '127.0.0.1';

export async function startProxy(to: NetConnectOpts): Promise<TcpProxy> {
  let inspection: Inspection | null = null;
  let mode: ProxyMode = 'pass';
  const sockets = new Set<Socket>();
  const forgotten = new WeakSet<Socket>();
  const isOpen = (socket: Socket): boolean => mode !== 'swallow' && !forgotten.has(socket);
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  };
  const carry = (from: Socket, onTo: Socket, isToServer: boolean): void => {
    from.on('data', (data) => {
      if (inspection?.(data, isToServer) === false) cut();
      else if (isOpen(from)) onTo.write(data);
    });
    from.on('close', () => {
      if (isOpen(from)) onTo.destroy();
    });
  };
  const listen = async (port: number): Promise<Server> => {
    const server = createServer((near) => {
      keep(near);
      const far = connect(to);
      keep(far);
      carry(near, far, true);
      carry(far, near, false);
    });
    server.listen(port, HOST);
    await once(server, 'listening');
    return server;
  };
  let server = await listen(0);
  const { port } = server.address() as AddressInfo;
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const stopListening = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    cut();
    await closed;
  };
  return {
    host: HOST,
    port,
    async set(next) {
      // A connection that has lost data in between never goes on: TCP would send it again, or end.
      if (mode === 'swallow') cut();
      mode = next;
      if (next === 'refuse') await stopListening();
      else if (!server.listening) server = await listen(port);
    },
    forget() {
      for (const socket of sockets) forgotten.add(socket);
    },
    cut,
    inspect(next) {
      inspection = next;
    },
    close: stopListening,
  };
}
