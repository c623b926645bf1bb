import { streamSSE } from 'hono/streaming';
import { maskLikelyCodes } from '../domain/secret.js';
import { type Dashboard, type DashboardParts, isViewer } from './context.js';
import { findSession } from './access-store.js';
import { sessionCookie, tokenHash } from './security.js';

/** How often an open stream checks its session (ms). */
const SESSION_CHECK_MS = 5_000;

/** Streams that one session may have open. The tabs of a browser share one where they can. */
const MAX_STREAMS = 8;

/** `/events`: streams live progress to browsers. All streams share one query a second. */
export function addEvents(app: Dashboard, { db, endpoint, live }: DashboardParts): void {
  /** Open streams of each session. */
  const open = new Map<string, number>();

  app.get('/events', (c) => {
    // A HEAD response has no reader that could end the stream.
    if (c.req.method === 'HEAD') return c.body(null);
    const token = sessionCookie(c, endpoint) ?? '';
    const streams = open.get(token) ?? 0;
    if (streams >= MAX_STREAMS) return c.text('too many open streams of this session\n', 429);
    open.set(token, streams + 1);
    const closed = (): void => {
      const left = (open.get(token) ?? 1) - 1;
      if (left > 0) open.set(token, left);
      else open.delete(token);
    };
    return streamSSE(c, async (stream) => {
      let eventId = Number(c.req.header('last-event-id') ?? 0) || 0;
      let checkedAt = performance.now();
      const watch = live.watch();
      stream.onAbort(() => watch.end());
      try {
        for (;;) {
          const message = await watch.next();
          if (stream.aborted || message === null) return;
          eventId += 1;
          const text = JSON.stringify(message);
          // Sent every second, even unchanged: it also tells the page that the server is up.
          await stream.writeSSE({
            event: 'live',
            id: String(eventId),
            data: isViewer(c) ? maskLikelyCodes(text) : text,
          });
          if (performance.now() - checkedAt < SESSION_CHECK_MS) continue;
          checkedAt = performance.now();
          if ((await findSession(db, tokenHash(token), false)) === null) return;
        }
      } finally {
        watch.end();
        closed();
      }
    });
  });
}
