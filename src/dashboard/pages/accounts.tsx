import type { Child, FC } from 'hono/jsx';
import { addLoginLink, changePassword, createUser, listUsers, ROLES } from '../access-store.js';
import { CopyButton } from '../answer.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  Problem,
  runAction,
} from '../context.js';
import { capital } from '../format.js';
import { page } from '../layout.js';
import { openSession } from '../login.js';
import {
  hashPassword,
  isUserName,
  MIN_PASSWORD_CHARS,
  PASSWORD_RULE,
  passwordFault,
} from '../passwords.js';
import { Choice, Icon, Section, Token } from '../parts.js';
import { oneOf, readForm } from '../query.js';
import { newToken, originOf, tokenHash } from '../security.js';

/** Above the list of accounts: one's own password, and a link for a colleague. */
export function accountForms(c: DashboardContext): Child {
  const token = c.get('token');
  return (
    <>
      {c.get('session').account === null ? null : <PasswordForm token={token} />}
      {isOperator(c) ? (
        <Section title="Let somebody log in" note="a viewer reads; an operator also acts">
          <form class="filter" method="post" action="/users/link">
            <Token value={token} />
            <label>
              Name
              <input name="name" pattern="[A-Za-z0-9_.@\-]{1,63}" autocomplete="off" required />
            </label>
            <Choice name="role" label="Role" of={ROLES} chosen="viewer" all={null} />
            <button>Make a login link</button>
          </form>
        </Section>
      ) : null}
    </>
  );
}

const PasswordForm: FC<{ token: string }> = ({ token }) => (
  <Section title="Your password" note={PASSWORD_RULE}>
    <form class="filter" method="post" action="/users/password">
      <Token value={token} />
      {[
        ['password', 'New password'],
        ['again', 'Again'],
      ].map(([name, label]) => (
        <label>
          {label}
          <input
            name={name}
            type="password"
            autocomplete="new-password"
            minlength={MIN_PASSWORD_CHARS}
            required
          />
        </label>
      ))}
      <button>Set password</button>
    </form>
  </Section>
);

/** `/users/link`, by operators, and `/users/password`, by everybody for the own account. */
export function addAccounts(app: Dashboard, parts: DashboardParts): void {
  const { db, config, endpoint } = parts;

  app.post('/users/link', async (c) => {
    const form = await readForm(c);
    const name = typeof form['name'] === 'string' ? form['name'].slice(0, 64) : '';
    const role = oneOf(ROLES, form['role']);
    const token = newToken();
    await runAction(c, parts, { action: 'make login link', target: name }, async () => {
      if (!isUserName(name) || role === undefined) {
        throw new Problem(
          'Nobody was added',
          `A name has 1 to 63 letters, digits and . _ - @; the role is ${ROLES.join(' or ')}.`,
        );
      }
      const isNew = await createUser(db, { name, role, passwordHash: '' });
      const known = isNew ? undefined : (await listUsers(db)).find((one) => one.name === name);
      if (known !== undefined && known.role !== role) {
        const remedy = 'Choose that role, or remove the account first.';
        throw new Problem(`${name} is ${known.role} already`, remedy, 409);
      }
      await addLoginLink(db, tokenHash(token), c.get('session').who, name);
    });
    const url = `${config.dashboard.url ?? originOf(c, endpoint)}/login?token=${token}`;
    return page(
      c,
      { title: `${name} may log in as ${role}`, isStatic: true },
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
          Who opens it can log in as {name}, and choose a password. It is not shown again, and
          earlier links for {name} no longer work. <a href="/users">All accounts</a>
        </p>
      </Section>,
    );
  });

  app.post('/users/password', async (c) => {
    const { password, again } = await readForm(c);
    const { account } = c.get('session');
    if (account === null || typeof password !== 'string') {
      throw new Problem('You have no account', 'Make one for yourself on the page Users.', 409);
    }
    await runAction(c, parts, { action: 'set password', target: account }, async () => {
      const fault = passwordFault(password) ?? (password === again ? null : 'the passwords differ');
      if (fault !== null) throw new Problem(capital(fault), 'Go back and type it again.');
      await changePassword(db, account, await hashPassword(password));
    });
    // All sessions of the account have ended, this one, too.
    await openSession(c, parts, { userName: account });
    return c.redirect('/?notice=password', 303);
  });
}
