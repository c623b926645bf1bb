import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { maskLikelyCodes } from '../domain/secret.js';
import { type DashboardContext, isLoggedIn, isViewer } from './context.js';
import { count } from '../domain/text.js';
import { TIME_ZONE } from './format.js';
import type { NavCounts } from './nav-store.js';
import { Icon, Sentence, Token } from './parts.js';
import { pageBefore } from './query.js';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/**
 * Sections in navigation order, in groups. Pressing `g`, then the key, opens a section. Beside it stands how many there
 * are, or what needs somebody, with its meaning for screen readers.
 */
const SECTIONS = [
  [
    { path: '/', label: 'Overview', key: 'o', icon: 'overview', count: ['needs', 'needing you'] },
    {
      path: '/audits',
      label: 'Check codes',
      key: 'a',
      icon: 'check',
      count: ['checking', 'running'],
    },
    { path: '/codes', label: 'Codes', key: 'p', icon: 'key', count: ['codes', 'known'] },
  ],
  [
    { path: '/items', label: 'Items', key: 'i', icon: 'box', count: ['items', 'items'] },
    {
      path: '/changes',
      label: 'Changes',
      key: 'c',
      icon: 'changes',
      count: ['changes', 'since yesterday'],
    },
    { path: '/runs', label: 'Runs', key: 'r', icon: 'runs', count: null },
  ],
  [
    { path: '/reports', label: 'Reports', key: 'e', icon: 'chart', count: null },
    { path: '/system', label: 'System', key: 's', icon: 'system', count: null },
  ],
] as const;

interface PageOptions {
  readonly title: string;
  /** In place of the title, as the first line of the page. */
  readonly heading?: Child;
  /** False: the page says by itself what became of an action. */
  readonly hasNotice?: boolean;
  /** The page's main actions, shown beside the title. */
  readonly actions?: Child;
  /** One line below the title. */
  readonly lead?: Child;
  /** Live updates must not replace the page's content, for example while someone fills in a form. */
  readonly isStatic?: boolean;
  readonly status?: 200 | 401 | 403 | 404 | 409 | 410 | 413 | 422 | 429 | 500 | 503;
}

/**
 * Responds with a complete document. For viewers, masks everything that looks like a purchase code:
 * list names and marketplace messages may contain one.
 */
export function respond(
  c: DashboardContext,
  document: { toString(): string | Promise<string> },
  status: ContentfulStatusCode = 200,
): Response {
  const text = `<!DOCTYPE html>${String(document)}`;
  return c.body(isViewer(c) ? text.replaceAll(/>[^<]+/g, maskLikelyCodes) : text, status, {
    'content-type': 'text/html; charset=utf-8',
  });
}

/** Responds with a page inside the dashboard's frame. */
export function page(
  c: DashboardContext,
  { status = 200, hasNotice = true, ...options }: PageOptions,
  content: Child,
): Response {
  const { pathname, searchParams } = new URL(c.req.url);
  return respond(
    c,
    <Frame
      {...options}
      path={pathname}
      notice={hasNotice ? searchParams.get('notice') : null}
      who={c.get('session')}
      token={c.get('token')}
      version={c.get('version')}
      counts={c.get('counts')}
    >
      {content}
    </Frame>,
    status,
  );
}

interface FrameProps extends PageOptions {
  readonly path: string;
  /** A key of `NOTICES`. */
  readonly notice: string | null;
  readonly who: { readonly who: string; readonly role: string };
  readonly token: string;
  readonly version: string;
  readonly counts: NavCounts | undefined;
}

const Frame: FC<PropsWithChildren<FrameProps>> = (props) => {
  const { title, heading, actions, lead, isStatic, path, notice, who, token, version, counts } =
    props;
  return (
    <Document title={title} version={version}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="side">
        <a class="brand" href="/">
          <Mark />
          <span>seller-mirror</span>
        </a>
        <button type="button" class="menu-button" popovertarget="menu">
          <NavCount of="needs" counts={counts} label="needing you" />
          Menu <Icon name="menu" />
        </button>
        <div id="menu" popover="auto">
          <button type="button" class="menu-button" popovertarget="menu" popovertargetaction="hide">
            Close <Icon name="close" />
          </button>
          <nav aria-label="Sections">
            {SECTIONS.map((group) => (
              <div>
                {group.map((section) => (
                  <span class="entry">
                    <a
                      href={section.path}
                      aria-current={isWithin(path, section.path) ? 'page' : undefined}
                      title={`g ${section.key}`}
                    >
                      <Icon name={section.icon} /> {section.label}
                    </a>
                    {section.count === null ? null : (
                      <NavCount of={section.count[0]} counts={counts} label={section.count[1]} />
                    )}
                  </span>
                ))}
              </div>
            ))}
          </nav>
          <div class="account">
            <span class="who">
              {who.who} <span class="muted">· {who.role}</span>
            </span>
            <form method="post" action="/logout">
              <Token value={token} />
              <button class="plain">Log out</button>
            </form>
          </div>
        </div>
        <span class="freshness" data-freshness="" role="status" aria-live="off"></span>
      </header>
      <main id="main" tabindex={-1} data-static={isStatic === true ? '' : undefined}>
        <div class="head">
          <div>
            <h1>{heading ?? title}</h1>
            {lead === undefined ? null : <p class="lead">{lead}</p>}
          </div>
          {actions === undefined ? null : <div class="actions">{actions}</div>}
        </div>
        <Notice of={notice} />
        {props.children}
        <footer>
          Times are in <span data-zone>{TIME_ZONE}</span>.
        </footer>
      </main>
      <p class="toast" role="status" data-toast=""></p>
      <Keys />
    </Document>
  );
};

/** A number beside a section; nothing for zero. */
const NavCount: FC<{ of: keyof NavCounts; counts: NavCounts | undefined; label: string }> = ({
  of,
  counts,
  label,
}) => {
  const number = counts?.[of] ?? 0;
  return number === 0 ? null : (
    <span class={`count ${of}`}>
      {count(number)}
      {of === 'changes' ? ' new' : ''}
      <span class="unseen"> {label}</span>
    </span>
  );
};

function isWithin(path: string, section: string): boolean {
  return (
    path === section ||
    (section !== '/' && path.startsWith(`${section}/`)) ||
    (section === '/' && path.startsWith('/sellers')) ||
    (section === '/system' && /^\/(?:feeds|jobs|users|tokens)\b/.test(path))
  );
}

/** An HTML document without navigation: login, errors, and the base of every page. */
export const Document: FC<
  PropsWithChildren<{ title: string; version?: string; next?: string }>
> = ({ title, version, next, children }) => (
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      {next === undefined ? null : <meta http-equiv="refresh" content={`0;url=${next}`} />}
      <title>{title} · seller-mirror</title>
      <link rel="icon" href={ASSETS.icon.path} type="image/svg+xml" />
      <link rel="stylesheet" href={ASSETS.styles.path} />
      <script type="module" src={ASSETS.script.path}></script>
    </head>
    <body data-version={version}>{children}</body>
  </html>
);

/** The thing and its mirror. */
export const Mark: FC = () => (
  <svg class="mark" viewBox="0 0 22 16" width="22" height="16" aria-hidden="true">
    <rect width="10" height="16" rx="1.5" />
    <rect class="twin" x="12" width="10" height="16" rx="1.5" />
  </svg>
);

/** Messages shown after an action, selected by the `notice` parameter of the URL. */
const NOTICES: Readonly<Record<string, string>> = {
  queued: 'Queued. The job starts as soon as a worker is free.',
  'no-worker': 'Queued, but no worker is running: somebody must start the service on the server.',
  accepted: 'Removals accepted.',
  kept: 'The items stay missing, and need nobody any more.',
  resumed: 'Resumed. Schedules mirror this seller again.',
  removed: 'The account is removed, and its sessions have ended.',
  password: 'Your password is set. Your other sessions have ended.',
  retried: 'The job is back in the queue.',
  revoked: 'The token is revoked. Programs that use it are refused within two seconds.',
  'seller-removed': 'The seller is removed, with its copy, history and checks.',
  cancelled: 'Check cancelled. Its verdicts so far are kept.',
};

const Notice: FC<{ of: string | null }> = ({ of }) => {
  // The key comes from the URL and could be `constructor`.
  const text = of !== null && Object.hasOwn(NOTICES, of) ? NOTICES[of] : undefined;
  return text === undefined ? null : (
    <p class="notice good" role="status" data-notice>
      <Sentence text={text} />
    </p>
  );
};

const Keys: FC = () => (
  <dialog id="keys" aria-labelledby="keys-title">
    <h2 id="keys-title">Keyboard shortcuts</h2>
    <dl class="keys">
      <dt>
        <kbd>/</kbd>
      </dt>
      <dd>Search</dd>
      {SECTIONS.flat().map(({ key, label }) => (
        <>
          <dt>
            <kbd>g</kbd> <kbd>{key}</kbd>
          </dt>
          <dd>{label}</dd>
        </>
      ))}
      <dt>
        <kbd>?</kbd>
      </dt>
      <dd>Show shortcuts</dd>
    </dl>
    <form method="dialog">
      <button>Close</button>
    </form>
  </dialog>
);

/**
 * Responds with a page that shows only a message.
 * @param link where to go from there; by default back to the page that sent the request
 */
export function message(
  c: DashboardContext,
  status: NonNullable<PageOptions['status']>,
  title: string,
  text: string,
  link = linkBack(c),
): Response {
  const content = (
    <>
      <p data-remedy>
        <Sentence text={text} />
      </p>
      <p>
        <a href={link.path}>{link.label}</a>
      </p>
    </>
  );
  if (isLoggedIn(c)) return page(c, { title, status, isStatic: true }, content);
  return respond(
    c,
    <Document title={title}>
      <main class="alone">
        <h1>{title}</h1>
        {content}
      </main>
    </Document>,
    status,
  );
}

function linkBack(c: DashboardContext): { readonly path: string; readonly label: string } {
  const path = pageBefore(c);
  return path === '/' ? { path, label: 'Go to the overview' } : { path, label: 'Go back' };
}

/** Refuses a form whose token is missing or belongs to another session. */
export function expiredForm(c: DashboardContext): Response {
  const remedy = 'The form has expired. Open its page again and fill it in.';
  return message(c, 403, 'Nothing was changed', remedy);
}

/** A static file. Its path contains a hash of its bytes, so browsers may cache it forever. */
interface Asset {
  readonly path: string;
  readonly type: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -4 24 24"><rect width="10" height="16" rx="1.5" fill="#0f766e"/><rect x="12" width="10" height="16" rx="1.5" fill="#9fcfc8"/></svg>`;

function asset(name: string, type: string, bytes: Uint8Array): Asset {
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
  return { path: `/assets/${hash}/${name}`, type, bytes: new Uint8Array(bytes) };
}

/** Reads a file from `dist/dashboard`, also when this module runs from `src`. */
function built(path: string): Uint8Array {
  return readFileSync(new URL(`../../dist/dashboard/${path}`, import.meta.url));
}

export const ASSETS = {
  styles: asset('styles.css', 'text/css; charset=utf-8', built('styles.css')),
  script: asset('main.js', 'text/javascript; charset=utf-8', built('client/main.js')),
  icon: asset('icon.svg', 'image/svg+xml', new TextEncoder().encode(ICON)),
} as const;
