import type { Dashboard, DashboardContext, DashboardParts } from './context.js';
import { addressOf, cookieOf, giveCookie, LoginLimit, newToken, tokenHash } from './doors.js';
import { Document, Mark, message, respond } from './layout.js';
import { isPassword, isUserName } from './passwords.js';
import { formIn } from './query.js';

/** Login by a link or by name and password. */
export function addLogin(app: Dashboard, { store, door, log }: DashboardParts): void {
  // Whoever guesses passwords must not lock out people with a link, which nobody can guess.
  const [links, passwords] = [new LoginLimit(), new LoginLimit()];

  app.get('/login', async (c) => {
    const token = c.req.query('token');
    // Previews of messengers look at links with HEAD: that uses none up.
    if (token === undefined || c.req.method === 'HEAD') return loginPage(c, null);
    const wait = links.enter(addressOf(c, door));
    if (wait > 0) return tooMany(c, wait);
    const madeBy = await store.access.useLink(tokenHash(token));
    if (madeBy === null) {
      return message(
        c,
        410,
        'This login link does not work any more',
        'A link works once, for 10 minutes. `seller-mirror dashboard link` prints a new one.',
      );
    }
    await begin(c, { madeBy });
    // After a redirect from another site, as from a mail, browsers would keep the cookie back.
    if (c.req.header('sec-fetch-site') !== 'cross-site') return c.redirect('/', 303);
    return respond(
      c,
      <Document title="Logged in" next="/">
        <main class="alone">
          <h1>You are logged in</h1>
          <p>
            <a href="/">To the overview</a>
          </p>
        </main>
      </Document>,
    );
  });

  app.post('/login', async (c) => {
    const wait = passwords.enter(addressOf(c, door));
    if (wait > 0) return tooMany(c, wait);
    const { name, password, to } = await formIn(c);
    if (typeof name !== 'string' || typeof password !== 'string') return loginPage(c, null);
    const stored = isUserName(name) ? await store.access.passwordHash(name) : null;
    if (!(await isPassword(password, stored))) {
      log.warn('dashboard: a login was refused');
      return loginPage(c, 'Name or password is wrong.');
    }
    await begin(c, { userName: name });
    return c.redirect(localPath(to), 303);
  });

  async function begin(
    c: DashboardContext,
    of: { readonly userName: string } | { readonly madeBy: string },
  ): Promise<void> {
    const before = cookieOf(c, door);
    if (before !== null) await store.access.endSession(tokenHash(before));
    const token = newToken();
    await store.access.openSession(tokenHash(token), of);
    const who = 'userName' in of ? of.userName : of.madeBy;
    await store.access.log({ who, action: 'log in', target: null, outcome: 'done' });
    giveCookie(c, door, token);
  }
}

/** A path of this dashboard; `/` for anything else. */
function localPath(to: unknown): string {
  return typeof to === 'string' && /^\/(?![/\\])[!-[\]-~]*$/.test(to) ? to : '/';
}

function tooMany(c: DashboardContext, seconds: number): Response {
  c.header('retry-after', String(seconds));
  return message(c, 429, 'Too many tries', `Try again in ${seconds} seconds.`);
}

function loginPage(c: DashboardContext, fault: string | null): Response {
  return respond(
    c,
    <Document title="Log in">
      <main class="alone">
        <h1>
          <Mark /> seller-mirror
        </h1>
        <form class="form" method="post" action="/login">
          {fault === null ? null : (
            <p class="fault" role="alert">
              {fault}
            </p>
          )}
          <input type="hidden" name="to" value={localPath(c.req.query('to'))} />
          <label>
            Name
            <input name="name" autocomplete="username" required autofocus />
          </label>
          <label>
            Password
            <input name="password" type="password" autocomplete="current-password" required />
          </label>
          <button class="main">Log in</button>
        </form>
        <p class="muted">
          On the machine itself, <code>seller-mirror dashboard link</code> prints a link that logs
          you in.
        </p>
      </main>
    </Document>,
    fault === null ? 200 : 401,
  );
}
