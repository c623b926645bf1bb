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
 * What the proxy does with connections. `pass`: what it should. `refuse`: nobody listens. `swallow`:
 * they stand, and nothing gets through them in either direction, as when a firewall forgot them.
 */
export type ProxyMode = 'pass' | 'refuse' | 'swallow';

/** A proxy of the tests' own before a server, to break the way to it in all the ways there are. */
export interface TcpProxy {
  readonly host: string;
  readonly port: number;
  set(mode: ProxyMode): Promise<void>;
  /** Nothing gets through the connections there are any more; new ones are treated by the mode. */
  forget(): void;
  /** Ends every connection there is without a goodbye; new ones are treated by the mode. */
  cut(): void;
  /** Looks at what passes until it is replaced; whatever it answers `false` to cuts all connections instead. */
  inspect(look: Inspection | null): void;
  close(): Promise<void>;
}

/** Whether a piece of data may pass. */
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
      mode = next;
      if (next === 'refuse') await stopListening();
      else if (!server.listening) server = await listen(port);
    },
    forget() {
      for (const socket of sockets) forgotten.add(socket);
    },
    cut,
    inspect(look) {
      inspection = look;
    },
    close: stopListening,
  };
}
