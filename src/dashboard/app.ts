import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { ASSETS } from './assets.js';
import {
  cookieOf,
  giveCookie,
  headers,
  hostDoor,
  isFormToken,
  operatorDoor,
  originDoor,
  sessionDoor,
  tokenHash,
} from './doors.js';
import { message } from './layout.js';
import { Problem, type Dashboard, type DashboardContext, type DashboardParts } from './context.js';
import { addEvents } from './events.js';
import { addAudits } from './pages/audits.js';
import { addChanges } from './pages/changes.js';
import { addCodes } from './pages/codes.js';
import { addItems } from './pages/items.js';
import { addReports } from './pages/reports.js';
import { addNewAudit } from './pages/new-audit.js';
import { addRuns } from './pages/runs.js';
import { addLogin } from './login.js';
import { formIn } from './query.js';
import { addOverview } from './pages/overview.js';
import { addSellers } from './pages/sellers.js';
import { addSystem } from './pages/system.js';

/** Bytes of a form; an uploaded list has limits of its own. */
const LARGEST_FORM = 64 * 1024;
/** The one page that reads a body as a stream, and the form's token from it. */
const UPLOAD_PATH = '/audits/new';

const limitLength = bodyLimit({
  maxSize: LARGEST_FORM,
  onError: (c) => c.text('the form is too large\n', 413),
});

/** Browsers say how long a form is. One that comes in chunks would have to be read to learn it. */
const limitForm: typeof limitLength = (c, next) =>
  c.req.header('transfer-encoding') === undefined
    ? limitLength(c, next)
    : Promise.resolve(c.text('the form does not say how long it is\n', 411));

/** The pages of the dashboard, behind their doors. */
export function dashboardApp(parts: DashboardParts): Dashboard {
  const { store, door, log } = parts;
  const app: Dashboard = new Hono();
  app.use(headers, hostDoor(door), originDoor(door));
  for (const asset of Object.values(ASSETS)) {
    app.get(asset.path, (c) =>
      c.body(asset.bytes, 200, {
        'content-type': asset.type,
        'cache-control': 'public, max-age=31536000, immutable',
      }),
    );
  }
  // PostgreSQL knows no such character: no name that there is has it.
  app.use(async (c, next) => (c.req.url.includes('%00') ? c.notFound() : await next()));
  app.use((c, next) => (isUpload(c) ? next() : limitForm(c, next)));
  addLogin(app, parts);
  app.use(sessionDoor(store, door), operatorOrHarmless, formDoor);
  app.post('/logout', async (c) => {
    const token = cookieOf(c, door);
    if (token !== null) await store.access.endSession(tokenHash(token));
    giveCookie(c, door, '');
    return c.redirect('/login', 303);
  });
  addEvents(app, parts);
  app.use(async (c, next) => {
    if (c.req.method === 'GET') c.set('version', await parts.live.version());
    await next();
  });
  addOverview(app, parts);
  addRuns(app, parts);
  addChanges(app, parts);
  addItems(app, parts);
  addSellers(app, parts);
  addSystem(app, parts);
  addReports(app, parts);
  addNewAudit(app, parts);
  addAudits(app, parts);
  addCodes(app, parts);
  app.notFound((c) => message(c, 404, 'There is no such page', 'The address may be mistyped.'));
  app.onError((error, c) => {
    if (error instanceof Problem) {
      return message(c, error.status, error.message, error.remedy);
    }
    log.error(`dashboard: ${error.name}`, { path: new URL(c.req.url).pathname });
    return message(
      c,
      503,
      'Not available just now',
      'The database or the queue did not answer. `seller-mirror doctor` says which.',
    );
  });
  return app;
}

/** Whether a list is sent: its page reads it as a stream. Elsewhere a form is a form, however encoded. */
function isUpload({ req }: DashboardContext): boolean {
  const isMultipart = req.header('content-type')?.startsWith('multipart/form-data') === true;
  return isMultipart && req.method === 'POST' && req.path === UPLOAD_PATH;
}

/** What viewers may send: they log out, and look up a code, which no address may hold. */
const FOR_ALL = ['/logout', '/codes'];

const operatorOrHarmless: typeof operatorDoor = (c, next) =>
  FOR_ALL.includes(c.req.path) ? next() : operatorDoor(c, next);

/** A form must carry the token of the session. */
const formDoor: typeof operatorDoor = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD' || isUpload(c)) return next();
  const { token, ...fields } = await formIn(c);
  if (isFormToken(c, token)) {
    // PostgreSQL keeps no such character: not even the log of actions could say what was asked.
    const texts = Object.values(fields).filter((value) => typeof value === 'string');
    if (!texts.some((text) => text.includes('\0'))) return next();
    return message(c, 422, 'Nothing was done', 'A field held a character that is not text.');
  }
  return message(
    c,
    403,
    'Nothing was done',
    'The form was too old. Go back, reload the page and try again.',
  );
};
