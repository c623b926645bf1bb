import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { World } from './world.js';

it('a server that never answers fails its feed after a while', async () => {
  const world = await World.open(1);
  onTestFinished(() => world.close());
  const silent = createServer((socket) => void socket.on('error', () => undefined));
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as AddressInfo;
  const schemes = ['postgresql', 'mysql'];
  const target = (scheme: string) => `${scheme}://bi:hidden-word@127.0.0.1:${port}/bi`;
  world.feeds(...schemes.map((name) => ({ name, target: target(name), views: ['items'] })));
  for (const { problem } of await Promise.all(schemes.map((name) => world.deliverQuietly(name)))) {
    expect(problem).toContain('no answer for 15 s');
    expect(problem).not.toContain('hidden-word');
  }
});
