import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { World } from './world.js';

let world: World;
beforeAll(async () => {
  world = await World.open(1);
});
afterAll(() => world.close());

describe.each(['postgresql', 'mysql'])('a server of %s:// that never answers', (scheme) => {
  it('fails its feed after a while, and the password is not shown', async () => {
    const silent = createServer((socket) => void socket.on('error', () => undefined));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as AddressInfo;
    const target = `${scheme}://bi:hidden-word@127.0.0.1:${port}/bi`;
    world.feeds({ name: 'silent', target, views: ['items'] });
    const { code, stdout, stderr } = await world.cli('feed', 'run');
    expect(code).toBe(1);
    expect(stdout).toContain('no answer for 15 s');
    expect(stdout + stderr).not.toContain('hidden-word');
  });
});
