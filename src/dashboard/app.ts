import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { ASSETS, expiredForm, message } from './layout.js';
import { type Dashboard, type DashboardContext, type DashboardParts, Problem } from './context.js';
import { addEvents } from './events.js';
import { accountForms, addAccounts } from './pages/accounts.js';
import { USER } from './users-resource.js';
import { FEED } from '../service/feeds-resource.js';
import { JOB } from '../service/jobs-resource.js';
import { SELLER } from '../service/sellers-resource.js';
import { TOKEN } from '../service/tokens-resource.js';
import { addLogin } from './login.js';
import { addAudits, addCheck } from './pages/check.js';
import { CHANGES } from '../catalogue/changes-listing.js';
import { addListing } from './listing.js';
import { addResource } from './resource.js';
import { ITEM } from '../catalogue/items-resource.js';
import { RUN } from '../catalogue/runs-resource.js';
import { addCodes } from './pages/codes.js';
import { addNewAudit } from './pages/new-audit.js';
import { addOverview } from './pages/overview.js';
import { addReports } from './pages/reports.js';
import { addSystem } from './pages/system.js';
import { Cache } from './cache.js';
import { readNavCounts } from './nav-store.js';
import { readForm } from './query.js';
import { limitUploads } from './upload.js';
import { endSession } from './access-store.js';
import {
  checkHost,
  checkOrigin,
  isFormToken,
  refuseForm,
  requireOperator,
  requireSession,
  sessionCookie,
  setHeaders,
  setSessionCookie,
  tokenHash,
} from './security.js';

/** Largest form in bytes. Uploaded lists have their own limit. */
const MAX_FORM_BYTES = 64 * 1024;
/** The only page that takes a list. */
const UPLOAD_PATH = '/audits/new';

const limitLength = bodyLimit({
  maxSize: MAX_FORM_BYTES,
  onError: (c) => c.text('the form is too large\n', 413),
});

/** Refuses chunked forms: their length is known only after reading them. Browsers send a length. */
const limitForm: typeof limitLength = (c, next) =>
  c.req.header('transfer-encoding') === undefined
    ? isUpload(c)
      ? next()
      : limitLength(c, next)
    : Promise.resolve(c.text('the form has no Content-Length\n', 411));

/** The numbers in the navigation may be this old (ms). */
const NAV_FRESH_MS = 5_000;

const METHODS = ['GET', 'HEAD', 'POST'];

/** JavaScript's own errors: a mistake in this program, not an outage. */
const FAULTS = [TypeError, RangeError, ReferenceError, SyntaxError, URIError];

const checkMethod: typeof limitLength = async (c, next) =>
  METHODS.includes(c.req.method)
    ? await next()
    : c.text('method not allowed\n', 405, { allow: METHODS.join(', ') });

/** Builds the dashboard: its security checks first, then its pages. */
export function dashboardApp(parts: DashboardParts): Dashboard {
  const { db, endpoint, log } = parts;
  const app: Dashboard = new Hono();
  const source = { db, config: parts.config, queues: () => Promise.resolve(parts.queues) };
  const counts = new Cache(() => readNavCounts(parts), { freshMs: NAV_FRESH_MS });
  app.use(setHeaders(endpoint), checkHost(endpoint), checkMethod, checkOrigin(endpoint));
  for (const asset of Object.values(ASSETS)) {
    app.get(asset.path, (c) =>
      c.body(asset.bytes, 200, {
        'content-type': asset.type,
        'cache-control': 'public, max-age=31536000, immutable',
      }),
    );
  }
  // PostgreSQL can't store NUL, so no name in a URL can contain it.
  app.use(async (c, next) => (c.req.url.includes('%00') ? c.notFound() : await next()));
  app.use(limitForm);
  addLogin(app, parts);
  // Needs no form token: a tab may still show the session before the last login.
  app.post('/logout', async (c) => {
    const token = sessionCookie(c, endpoint);
    if (token !== null) await endSession(db, tokenHash(token));
    setSessionCookie(c, endpoint, '');
    return c.redirect('/login', 303);
  });
  app.use(requireSession(db, endpoint), checkRole);
  app.post(UPLOAD_PATH, limitUploads(parts.uploads.maxBytes));
  app.use(checkForm);
  addEvents(app, parts);
  app.use(async (c, next) => {
    if (c.req.method === 'GET') {
      c.set('version', await parts.live.version());
      c.set('counts', await counts.get('all'));
    }
    await next();
  });
  addOverview(app, parts);
  addResource(app, parts, RUN, db);
  addListing(app, parts, CHANGES, db);
  addResource(app, parts, ITEM, db);
  addResource(app, parts, SELLER, source);
  addSystem(app, parts);
  addAccounts(app, parts);
  addResource(app, parts, USER, db, { above: accountForms });
  addResource(app, parts, TOKEN, db);
  addResource(app, parts, FEED, source);
  addResource(app, parts, JOB, source);
  addReports(app, parts);
  addNewAudit(app, parts);
  addAudits(app, parts);
  addCheck(app, parts);
  addCodes(app, parts);
  app.notFound((c) => message(c, 404, 'Page not found', 'Check the address.'));
  app.onError((error, c) => {
    if (error instanceof HTTPException) return refuseForm(c, endpoint);
    if (error instanceof Problem) {
      return message(c, error.status, error.message, error.remedy);
    }
    log.error(`dashboard: ${error.name}`, { path: new URL(c.req.url).pathname });
    if (FAULTS.some((fault) => error instanceof fault)) {
      return message(
        c,
        500,
        'This page failed',
        'This is a fault in seller-mirror, not in your data. Please report it with the log line that names this page.',
      );
    }
    return message(
      c,
      503,
      'Temporarily unavailable',
      'The database or the queue did not respond. Somebody must find out on the server which of them.',
    );
  });
  return app;
}

/** Whether the request uploads a list, which has a limit of its own once the session is known. */
function isUpload({ req }: DashboardContext): boolean {
  const isMultipart = req.header('content-type')?.startsWith('multipart/form-data') === true;
  return isMultipart && req.method === 'POST' && req.path === UPLOAD_PATH;
}

/** Viewers may look up a code by POST, since URLs must not contain codes, and set their own password. */
const checkRole: typeof requireOperator = (c, next) =>
  ['/codes', '/users/password'].includes(c.req.path) ? next() : requireOperator(c, next);

/** Refuses a form without the session's form token. */
const checkForm: typeof requireOperator = async (c, next) => {
  if (c.req.method === 'GET' || c.req.method === 'HEAD') return next();
  const { token, ...fields } = await readForm(c);
  if (!isFormToken(c, token)) return expiredForm(c);
  // PostgreSQL can't store NUL, not even in the action log.
  const hasNul = Object.values(fields).some(
    (value) => typeof value === 'string' && value.includes('\0'),
  );
  if (!hasNul) return next();
  return message(c, 422, 'Nothing was changed', 'A field contains an invalid character.');
};
