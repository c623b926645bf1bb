import type { Child, FC, PropsWithChildren } from 'hono/jsx';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { maskLikelyCodes } from '../domain/secret.js';
import { isViewer, type DashboardContext } from './context.js';
import { ASSETS } from './assets.js';
import { Sentence, TIME_ZONE, Token } from './parts.js';

/** The sections, in the order of the navigation; the key goes there after `g`. */
const SECTIONS = [
  { path: '/', label: 'Overview', key: 'o' },
  { path: '/runs', label: 'Runs', key: 'r' },
  { path: '/changes', label: 'Changes', key: 'c' },
  { path: '/items', label: 'Items', key: 'i' },
  { path: '/audits', label: 'Audits', key: 'a' },
  { path: '/codes', label: 'Codes', key: 'p' },
  { path: '/reports', label: 'Reports', key: 'e' },
  { path: '/system', label: 'System', key: 's' },
] as const;

interface PageOptions {
  readonly title: string;
  /** Beside the title: the page's main actions. */
  readonly actions?: Child;
  /** One line under the title. */
  readonly lead?: Child;
  /** The page stays as it is while figures change, such as a form. */
  readonly isStill?: boolean;
  readonly status?: 200 | 404 | 409 | 422;
}

/**
 * Answers with a whole document. Names of lists and what the marketplace says may hold a purchase code:
 * viewers see it masked there too.
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

/** Answers with a page of the dashboard. */
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
  /** A name of `NOTICES`. */
  readonly notice: string | null;
  readonly who: { readonly who: string; readonly role: string };
  readonly token: string;
  readonly version: string;
}

const Frame: FC<PropsWithChildren<FrameProps>> = (props) => {
  const { title, actions, lead, isStill, path, notice, who, token, version, children } = props;
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
      <main id="main" tabindex={-1} data-still={isStill === true ? '' : undefined}>
        <div class="head">
          <div>
            <h1>{title}</h1>
            {lead === undefined ? null : <p class="lead">{lead}</p>}
          </div>
          {actions === undefined ? null : <div class="actions">{actions}</div>}
        </div>
        <Notice of={notice} />
        {children}
        <footer>Times are in {TIME_ZONE}.</footer>
      </main>
      <Keys />
    </Document>
  );
};

function isWithin(path: string, section: string): boolean {
  return (
    path === section ||
    (section !== '/' && path.startsWith(`${section}/`)) ||
    // A seller's page belongs to the overview.
    (section === '/' && path.startsWith('/sellers/'))
  );
}

/** A page without session: login and errors. */
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

/** What was done, by the name that the page's address carries. */
const NOTICES: Readonly<Record<string, string>> = {
  queued: 'The job is in the queue. It begins as soon as a worker is free.',
  'no-worker':
    'The job is in the queue, but no worker is running: start one with `seller-mirror run`.',
  approved: 'The removals were approved.',
  rejected: 'The removals were rejected: the items stay missing.',
  paused: 'Schedules leave this seller alone until you resume it.',
  resumed: 'Schedules mirror this seller again.',
  retried: 'The job is in the queue again, with all its attempts.',
  'key-untried':
    'The audit is in the queue. The marketplace did not answer this machine, so the worker tries the API key: with a bad one the audit fails, and says so here.',
  cancelled: 'The audit was cancelled. Verdicts that it found are kept.',
};

const Notice: FC<{ of: string | null }> = ({ of }) => {
  // The name comes from the address: `constructor` is none.
  const text = of !== null && Object.hasOwn(NOTICES, of) ? NOTICES[of] : undefined;
  return text === undefined ? null : (
    <p class="notice good" role="status">
      <Sentence text={text} />
    </p>
  );
};

const Keys: FC = () => (
  <dialog id="keys" aria-labelledby="keys-title">
    <h2 id="keys-title">Keys</h2>
    <dl class="keys">
      <dt>
        <kbd>/</kbd>
      </dt>
      <dd>search</dd>
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
      <dd>this list</dd>
    </dl>
    <form method="dialog">
      <button>Close</button>
    </form>
  </dialog>
);

/** Answers with one message. */
export function message(
  c: DashboardContext,
  status: 403 | 404 | 409 | 410 | 413 | 422 | 429 | 503,
  title: string,
  text: string,
): Response {
  return respond(
    c,
    <Document title={title}>
      <main class="alone">
        <h1>{title}</h1>
        <p>
          <Sentence text={text} />
        </p>
        <p>
          <a href="/">To the overview</a>
        </p>
      </main>
    </Document>,
    status,
  );
}
