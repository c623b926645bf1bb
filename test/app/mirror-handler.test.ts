import { describe, expect, it } from 'vitest';
import type { App } from '../../src/app.js';
import { mirrorHandler } from '../../src/app/mirror-handler.js';
import { silentLog } from '../../src/domain/log.js';
import type { Queues } from '../../src/queue/queues.js';

describe('a worker', () => {
  it('leaves the job of a seller that it does not know for another try: while a fleet gets a new sellers file, old workers and new ones take the same jobs', async () => {
    const app = { config: { sellers: [{ name: 'ada' }], alerts: null } } as unknown as App;
    const handle = mirrorHandler(app, {} as Queues);
    const outcome = await handle(
      { kind: 'sync', seller: 'grace', tick: null, askedAt: '2026-11-21T02:00:00.000Z' },
      {
        ...{ jobId: 'job', attempt: 1, attempts: 12 },
        ...{ signal: new AbortController().signal, closing: new AbortController().signal },
        log: silentLog,
      },
    );
    expect(outcome).toMatchObject({ kind: 'retry', notBefore: null });
  });
});
