import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { startScript } from './children.js';
import type { Change, Ready } from './marketplace.js';

export const KEY = 'bench-0123456789abcdef0123456789abcdef';

/** The marketplace process. Every change returns when the new list is rendered. */
export class BenchMarketplace {
  readonly #process: ChildProcess;
  readonly ready: Ready;

  private constructor(child: ChildProcess, ready: Ready) {
    this.#process = child;
    this.ready = ready;
  }

  static async open(items: number): Promise<BenchMarketplace> {
    const child = startScript('marketplace', { items, key: KEY });
    return new BenchMarketplace(child, await answer(child));
  }

  async change(what: Change): Promise<void> {
    this.#process.send(what);
    await answer(this.#process);
  }

  async close(): Promise<void> {
    if (!this.#process.connected) return;
    const gone = once(this.#process, 'exit');
    this.#process.disconnect();
    await gone;
  }
}

async function answer(child: ChildProcess): Promise<Ready> {
  const over = new AbortController();
  const { signal } = over;
  const gone = once(child, 'exit', { signal }).then(() => {
    throw new Error('the simulated marketplace ended');
  });
  try {
    const [ready] = (await Promise.race([once(child, 'message', { signal }), gone])) as [Ready];
    return ready;
  } finally {
    over.abort();
  }
}
