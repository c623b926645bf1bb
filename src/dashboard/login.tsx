import type { FC } from 'hono/jsx';
import type { Dashboard, DashboardContext, DashboardParts } from './context.js';
import {
  clientAddress,
  LoginLimit,
  newToken,
  sessionCookie,
  setSessionCookie,
  tokenHash,
} from './security.js';
import { Document, Mark, message, respond } from './layout.js';
import { isPassword, isUserName } from './passwords.js';
import {
  findLoginLink,
  type LoginOwner,
  useLoginLink,
  readPasswordHash,
  endSession,
  startSession,
  logAction,
} from './access-store.js';
import { localPath, readForm } from './query.js';

/** `/login`: log in with a one-time link, or with name and password. */
export function addLogin(app: Dashboard, parts: DashboardParts): void {
  const { db, endpoint, log } = parts;
  // For passwords only. A link's token has 256 bits: a limit would protect nothing, and any web page could
  // use it up with images of `/login?token=x`.
  const passwords = new LoginLimit();

  app.get('/login', async (c) => {
    const token = c.req.query('token');
    // Messengers preview links with HEAD. That must not use up the link.
    if (token === undefined || c.req.method === 'HEAD') {
      return loginPage(c, { to: c.req.query('to') });
    }
    const owner = await findLoginLink(db, tokenHash(token));
    // Link previews and mail scanners open what is shared in a chat or a mail. Only the button uses it up.
    if (owner !== null && 'userName' in owner) return linkPage(c, owner.userName, token);
    const used = await useLoginLink(db, tokenHash(token));
    if (used === null) return expiredLink(c);
    await openSession(c, parts, used);
    // Opened from another site, such as webmail: a redirect would not send the new cookie.
    if (c.req.header('sec-fetch-site') !== 'cross-site') return c.redirect('/', 303);
    return respond(
      c,
      <Document title="Logged in" next="/">
        <main class="alone">
          <h1>You are logged in</h1>
          <p>
            <a href="/">Go on</a>
          </p>
        </main>
      </Document>,
    );
  });

  app.post('/login/link', async (c) => {
    const { token } = await readForm(c);
    const owner = typeof token === 'string' ? await useLoginLink(db, tokenHash(token)) : null;
    if (owner === null) return expiredLink(c);
    await openSession(c, parts, owner);
    return c.redirect('userName' in owner ? '/users' : '/', 303);
  });

  app.post('/login', async (c) => {
    const wait = passwords.attempt(clientAddress(c, endpoint));
    if (wait > 0) {
      c.header('retry-after', String(wait));
      return message(c, 429, 'Too many login attempts', `Try again in ${wait} seconds.`);
    }
    const { name, password, to } = await readForm(c);
    if (typeof name !== 'string' || typeof password !== 'string') return loginPage(c, { to });
    const stored = isUserName(name) ? await readPasswordHash(db, name) : null;
    if (!(await isPassword(password, stored))) {
      log.warn('dashboard: login refused: wrong name or password');
      return loginPage(c, { to, name, error: 'Wrong name or password.' });
    }
    passwords.succeeded(clientAddress(c, endpoint));
    await openSession(c, parts, { userName: name });
    return c.redirect(localPath(to), 303);
  });
}

/** Logs a browser in: ends the session that it had, and starts a new one. */
export async function openSession(
  c: DashboardContext,
  { db, endpoint }: Pick<DashboardParts, 'db' | 'endpoint'>,
  of: LoginOwner,
): Promise<void> {
  const previous = sessionCookie(c, endpoint);
  if (previous !== null) await endSession(db, tokenHash(previous));
  const token = newToken();
  await startSession(db, tokenHash(token), of);
  const who = 'userName' in of ? of.userName : of.madeBy;
  await logAction(db, { who, action: 'log in', target: null, outcome: 'done' });
  setSessionCookie(c, endpoint, token);
}

function expiredLink(c: DashboardContext): Response {
  return message(
    c,
    410,
    'This login link has expired',
    'A link works once, and not for long. An operator, or somebody who can run commands on the server, makes a new one.',
  );
}

/** A page of somebody who is not logged in yet, with the program's name on top. */
const LoginFrame: FC = ({ children }) => (
  <Document title="Log in">
    <main class="alone">
      <h1>
        <Mark /> seller-mirror
      </h1>
      {children}
    </main>
  </Document>
);

/** The page of an account's login link: its button logs in. */
function linkPage(c: DashboardContext, name: string, token: string): Response {
  return respond(
    c,
    <LoginFrame>
      <form class="form" method="post" action="/login/link">
        <input type="hidden" name="token" value={token} />
        <button class="main">Log in as {name}</button>
      </form>
      <p class="muted">The link works once. You can choose a password afterwards.</p>
    </LoginFrame>,
  );
}

/** @param to where the login leads @param name what was typed into the field Name */
function loginPage(
  c: DashboardContext,
  { to, name, error }: { to: unknown; name?: string; error?: string },
): Response {
  return respond(
    c,
    <LoginFrame>
      <form class="form" method="post" action="/login">
        {error === undefined ? null : (
          <p class="notice bad" role="alert">
            {error}
          </p>
        )}
        <input type="hidden" name="to" value={localPath(to)} />
        <label>
          Name
          <input
            name="name"
            value={name}
            autocomplete="username"
            required
            autofocus={name === undefined}
          />
        </label>
        <label>
          Password
          <input
            name="password"
            type="password"
            autocomplete="current-password"
            required
            autofocus={name !== undefined}
          />
        </label>
        <button class="main">Log in</button>
      </form>
      <p class="muted">
        No account? An operator can add one, and somebody who can run commands on the server can
        make a login link.
      </p>
    </LoginFrame>,
    error === undefined ? 200 : 401,
  );
}
