import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { maskLikelyCodes } from '../domain/secret.js';
import { type DashboardContext, isLoggedIn, isViewer } from './context.js';
import { TIME_ZONE } from './format.js';
import { Sentence, Token } from './parts.js';
import { pageBefore } from './query.js';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** Sections in navigation order. Pressing `g`, then the key, opens a section. */
const SECTIONS = [
  { path: '/audits/new', label: 'Check codes', key: 'n' },
  { path: '/', label: 'Overview', key: 'o' },
  { path: '/audits', label: 'Checks', key: 'a' },
  { path: '/codes', label: 'Codes', key: 'p' },
  { path: '/items', label: 'Items', key: 'i' },
  { path: '/changes', label: 'Changes', key: 'c' },
  { path: '/runs', label: 'Runs', key: 'r' },
  { path: '/reports', label: 'Reports', key: 'e' },
  { path: '/system', label: 'System', key: 's' },
] as const;

interface PageOptions {
  readonly title: string;
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
  { status = 200, ...options }: PageOptions,
  content: Child,
): Response {
  const { pathname, searchParams } = new URL(c.req.url);
  return respond(
    c,
    <Frame
      {...options}
      path={pathname}
      notice={searchParams.get('notice')}
      who={c.get('session')}
      token={c.get('token')}
      version={c.get('version')}
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
}

const Frame: FC<PropsWithChildren<FrameProps>> = (props) => {
  const { title, actions, lead, isStatic, path, notice, who, token, version, children } = props;
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
        <nav aria-label="Sections">
          {SECTIONS.map((section) => (
            <a
              href={section.path}
              aria-current={isWithin(path, section.path) ? 'page' : undefined}
              title={`g ${section.key}`}
            >
              {section.label}
            </a>
          ))}
        </nav>
        <div class="account">
          <span class="freshness" data-freshness="" role="status" aria-live="off"></span>
          <span class="who">
            {who.who} <span class="muted">· {who.role}</span>
          </span>
          <form method="post" action="/logout">
            <Token value={token} />
            <button class="plain">Log out</button>
          </form>
        </div>
      </header>
      <main id="main" tabindex={-1} data-static={isStatic === true ? '' : undefined}>
        <div class="head">
          <div>
            <h1>{title}</h1>
            {lead === undefined ? null : <p class="lead">{lead}</p>}
          </div>
          {actions === undefined ? null : <div class="actions">{actions}</div>}
        </div>
        <Notice of={notice} />
        {children}
        <footer>
          Times are in <span data-zone>{TIME_ZONE}</span>.
        </footer>
      </main>
      <Keys />
    </Document>
  );
};

function isWithin(path: string, section: string): boolean {
  return (
    path === section ||
    (section !== '/' &&
      path.startsWith(`${section}/`) &&
      !SECTIONS.some((one) => one.path === path)) ||
    // Seller pages belong to the overview.
    (section === '/' && path.startsWith('/sellers/'))
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

export const Mark: FC = () => (
  <svg class="mark" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
    <path d="M4 5h7v14H4z" />
    <path class="faint" d="M13 5h7v14h-7z" />
  </svg>
);

/** Messages shown after an action, selected by the `notice` parameter of the URL. */
const NOTICES: Readonly<Record<string, string>> = {
  queued: 'Queued. The job starts as soon as a worker is free.',
  'no-worker': 'Queued, but no worker is running. Start one with `npx seller-mirror run`.',
  accepted: 'Removals accepted.',
  kept: 'The items stay missing, and need nobody any more.',
  resumed: 'Resumed. Schedules mirror this seller again.',
  removed: 'The account is removed, and its sessions have ended.',
  retried: 'The job is back in the queue.',
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
      {SECTIONS.map(({ key, label }) => (
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

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="#0f766e" d="M4 5h7v14H4z"/><path fill="#99d5cd" d="M13 5h7v14h-7z"/></svg>`;

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
