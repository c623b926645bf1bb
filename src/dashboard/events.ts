import { streamSSE } from 'hono/streaming';
import { maskLikelyCodes } from '../domain/secret.js';
import { isViewer, type Dashboard, type DashboardParts } from './context.js';
import { cookieOf, tokenHash } from './doors.js';

/** Time between two checks that a watcher's session lasts (ms). */
const SESSION_CHECK_MS = 5_000;

/** `/events`: tells browsers how far running work is, by one query a second for all of them. */
export function addEvents(app: Dashboard, { store, door, live }: DashboardParts): void {
  app.get('/events', (c) => {
    // Nobody reads the stream of a HEAD, so nobody would end its watch.
    if (c.req.method === 'HEAD') return c.body(null);
    const token = cookieOf(c, door) ?? '';
    return streamSSE(c, async (stream) => {
      let number = Number(c.req.header('last-event-id') ?? 0) || 0;
      let checkedAt = Date.now();
      const watch = live.watch();
      stream.onAbort(() => watch.end());
      try {
        for (;;) {
          const message = await watch.next();
          if (stream.aborted || message === null) return;
          number += 1;
          const text = JSON.stringify(message);
          // Sent each second, changed or not: the page sees that the server is there.
          await stream.writeSSE({
            event: 'live',
            id: String(number),
            data: isViewer(c) ? maskLikelyCodes(text) : text,
          });
          if (Date.now() - checkedAt < SESSION_CHECK_MS) continue;
          checkedAt = Date.now();
          if ((await store.access.session(tokenHash(token), false)) === null) return;
        }
      } finally {
        watch.end();
      }
    });
  });
}
