import type { FC } from 'hono/jsx';
import {
  acceptInvitation,
  createUser,
  deleteUser,
  findInvitation,
  type listUsers,
} from './access-store.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  Problem,
  runAction,
} from './context.js';
import { CopyButton } from './answer.js';
import { Icon } from './icons.js';
import { Document, Mark, message, page, respond } from './layout.js';
import { ActionButton, Ago, Section, TableSection } from './parts.js';
import { openSession } from './login.js';
import {
  hashPassword,
  invitationHash,
  isUserName,
  MIN_PASSWORD_CHARS,
  PASSWORD_RULE,
  passwordFault,
} from './passwords.js';
import { oneOf, readForm } from './query.js';
import { newToken, originOf, tokenHash } from './security.js';

const ROLES = ['viewer', 'operator'] as const;

type User = Awaited<ReturnType<typeof listUsers>>[number];

/** The accounts, each with a button that removes it or takes its invitation back, and a form for a new one. */
export const Accounts: FC<{ users: readonly User[]; c: DashboardContext }> = ({ users, c }) => (
  <>
    <TableSection
      title="Accounts"
      flows
      rows={users}
      empty={
        <>
          No accounts yet. Invite a colleague below, or log in with{' '}
          <code>npx seller-mirror dashboard link</code>.
        </>
      }
      columns={[
        { name: 'Name', cell: ({ name }) => name },
        { name: 'Role', cell: ({ role }) => role },
        { name: 'Since', isLabelled: true, cell: ({ createdAt }) => <Ago at={createdAt} /> },
        {
          name: 'Invitation ends',
          isLabelled: true,
          cell: ({ invitedUntil }) => <Ago at={invitedUntil} none="–" />,
        },
        ...(isOperator(c)
          ? [
              {
                name: 'Action',
                cell: ({ name, invitedUntil }: User) =>
                  isOwn(c, name) ? (
                    <span class="muted">your own</span>
                  ) : (
                    <ActionButton
                      action="/system/accounts/remove"
                      token={c.get('token')}
                      fields={{ name }}
                    >
                      {invitedUntil === null ? 'Remove' : 'Revoke'}
                    </ActionButton>
                  ),
              },
            ]
          : []),
      ]}
    />
    {isOperator(c) ? (
      <Section
        title="Invite a colleague"
        note="a viewer reads, with codes masked; an operator also acts"
      >
        <form class="filter" method="post" action="/system/accounts/invite">
          <input type="hidden" name="token" value={c.get('token')} />
          <label>
            Name
            <input name="name" pattern="[A-Za-z0-9_.@\-]{1,63}" autocomplete="off" required />
          </label>
          <label>
            Role
            <select name="role">
              {ROLES.map((role) => (
                <option>{role}</option>
              ))}
            </select>
          </label>
          <button>Invite</button>
        </form>
      </Section>
    ) : null}
  </>
);

/** Operators invite and remove. */
export function addAccounts(app: Dashboard, parts: DashboardParts): void {
  const { db, config, endpoint } = parts;

  app.post('/system/accounts/invite', async (c) => {
    const form = await readForm(c);
    const name = nameIn(form);
    const role = oneOf(ROLES, form['role']);
    const token = newToken();
    await runAction(c, parts, { action: 'invite', target: name }, async () => {
      if (!isUserName(name) || role === undefined) {
        throw new Problem(
          'Nobody was invited',
          `A name has 1 to 63 letters, digits and . _ - @; the role is ${ROLES.join(' or ')}.`,
        );
      }
      const passwordHash = invitationHash(tokenHash(token));
      if (await createUser(db, { name, role, passwordHash })) return;
      throw new Problem(
        `There is already an account ${name}`,
        'Choose another name, or remove that account first.',
        409,
      );
    });
    const url = `${config.dashboard.url ?? originOf(c, endpoint)}/invitation?token=${token}`;
    return page(
      c,
      { title: `${name} is invited`, isStatic: true },
      <Section title="Send this link" note="it works once, within a day">
        <pre class="reply" tabindex={0}>
          {url}
        </pre>
        <div class="actions">
          <CopyButton text={url} done="Link copied" isMain>
            Copy
          </CopyButton>
          <button type="button" data-share={url}>
            <Icon name="share" /> Share
          </button>
        </div>
        <p class="muted">
          Who opens it chooses a password and is logged in. <a href="/system">Revoke</a> takes it
          back. It is not shown again.
        </p>
      </Section>,
    );
  });

  app.post('/system/accounts/remove', async (c) => {
    const target = nameIn(await readForm(c));
    await runAction(c, parts, { action: 'remove account', target }, async () => {
      if (isOwn(c, target)) {
        throw new Problem('That is your own account', 'Another operator can remove it.', 409);
      }
      if (await deleteUser(db, target)) return;
      throw new Problem('There is no such account', 'The System page lists them.', 404);
    });
    return c.redirect('/system?notice=removed', 303);
  });
}

/** Whether the user is logged in with this account. */
function isOwn(c: DashboardContext, name: string): boolean {
  return c.get('session').who === name;
}

/** The field Name, cut to what an account's name may have. */
function nameIn({ name }: Readonly<Record<string, unknown>>): string {
  return typeof name === 'string' ? name.slice(0, 64) : '';
}

/** `/invitation`: who was invited chooses a password. Needs no session. */
export function addInvitation(
  app: Dashboard,
  parts: Pick<DashboardParts, 'db' | 'endpoint'>,
): void {
  const { db } = parts;
  const gone = (c: DashboardContext): Response =>
    message(
      c,
      410,
      'This invitation has ended',
      'It works once, within a day, and may have been taken back. Ask for a new one.',
    );

  app.get('/invitation', async (c) => {
    const token = c.req.query('token') ?? '';
    const invited = await findInvitation(db, tokenHash(token));
    return invited === null ? gone(c) : passwordPage(c, { token, name: invited.name });
  });

  app.post('/invitation', async (c) => {
    const { invitation: token, password, again } = await readForm(c);
    if (typeof token !== 'string' || typeof password !== 'string') return gone(c);
    const invited = await findInvitation(db, tokenHash(token));
    if (invited === null) return gone(c);
    const fault = passwordFault(password) ?? (password === again ? null : 'the passwords differ');
    if (fault !== null) return passwordPage(c, { token, name: invited.name, fault });
    const isFirst = await acceptInvitation(db, invited, await hashPassword(password));
    if (!isFirst) return gone(c);
    await openSession(c, parts, { userName: invited.name });
    return c.redirect('/', 303);
  });
}

function passwordPage(
  c: DashboardContext,
  { token, name, fault }: { token: string; name: string; fault?: string },
): Response {
  return respond(
    c,
    <Document title="Choose a password">
      <main class="alone">
        <h1>
          <Mark /> Welcome, {name}
        </h1>
        <form class="form" method="post" action="/invitation">
          {fault === undefined ? null : (
            <p class="notice bad" role="alert">
              {fault}
            </p>
          )}
          <input type="hidden" name="invitation" value={token} />
          <input type="hidden" name="name" value={name} autocomplete="username" />
          <p class="muted" id="rule">
            {PASSWORD_RULE}
          </p>
          <label>
            Password
            <input
              name="password"
              type="password"
              autocomplete="new-password"
              minlength={MIN_PASSWORD_CHARS}
              aria-describedby="rule"
              required
              autofocus
            />
          </label>
          <label>
            Again
            <input
              name="again"
              type="password"
              autocomplete="new-password"
              minlength={MIN_PASSWORD_CHARS}
              required
            />
          </label>
          <button class="main">Choose password</button>
        </form>
      </main>
    </Document>,
    fault === undefined ? 200 : 422,
  );
}
