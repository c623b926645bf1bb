import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { openOwnClient } from '../../src/db/pools.js';

it('an abort ends the wait for a database that does not answer, since a person pressed Ctrl-C', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const stop = new AbortController();
  const opening = openOwnClient(`postgresql://u:p@127.0.0.1:${port}/d`, 'test', stop.signal);
  const [socket] = (await once(server, 'connection')) as [Socket];
  socket.resume();
  await once(socket, 'data');
  stop.abort();
  await expect(opening).rejects.toThrow();
  await expect(openOwnClient('postgresql://u@nowhere/d', 'test', stop.signal)).rejects.toThrow(
    'aborted',
  );
});
