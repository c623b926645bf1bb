/** Progressive enhancement of the pages: live updates, upload progress, copy buttons, shortcuts. */

const main = (): HTMLElement => document.querySelector('main') ?? document.body;

// --- Live updates ---

interface LiveMessage {
  /** Changes when the page must be fetched again. */
  readonly version: string;
  readonly bars: readonly {
    readonly id: string;
    readonly done: number;
    readonly total: number | null;
    readonly text: string;
  }[];
}

/** Without a message for this long (ms), the server counts as gone. It sends one each second. */
const GONE_MS = 8_000;

/** Time until a refused stream is requested again (ms). */
const RETRY_MS = 4_000;

let source: EventSource | null = null;
/** Version of the page's content, as in `LiveMessage`. */
let version = document.body.dataset['version'];
let isRefreshing = false;
let lastMessageAt = Date.now();
let isLoggedOut = false;

function connect(): void {
  if (source !== null || document.hidden) return;
  source = new EventSource('/events');
  source.addEventListener('error', () => {
    // Browsers reconnect after a broken connection, but not after an error response, such as during an
    // outage or without a session.
    if (source?.readyState !== EventSource.CLOSED) return;
    source = null;
    setTimeout(() => void reconnect(), RETRY_MS);
  });
  source.addEventListener('live', ({ data }: MessageEvent<string>) => {
    lastMessageAt = Date.now();
    const live = JSON.parse(data) as LiveMessage;
    live.bars.forEach(updateBar);
    if (version !== live.version && !isRefreshing) void refresh(live.version);
  });
}

async function reconnect(): Promise<void> {
  const headers = { accept: 'text/event-stream' };
  const reply = await fetch('/codes', { method: 'HEAD', headers }).catch(() => null);
  isLoggedOut = reply?.status === 401;
  // Reloading leads to the login, but must not discard what the user types.
  if (isLoggedOut && !isBusy()) location.reload();
  else connect();
}

function disconnect(): void {
  source?.close();
  source = null;
}

function updateBar({ id, done, total, text }: LiveMessage['bars'][number]): void {
  for (const element of document.querySelectorAll<HTMLElement>('[data-live]')) {
    if (element.dataset['live'] !== id) continue;
    const bar = element.querySelector('progress');
    if (bar !== null && total !== null) {
      bar.max = Math.max(1, total);
      bar.value = done;
    } else {
      bar?.removeAttribute('value');
    }
    const label = element.querySelector('[data-live-text]');
    if (label !== null) label.textContent = text;
  }
}

/** Whether the content must stay: the user may be typing, or the page is static. */
function isBusy(): boolean {
  return (
    document.activeElement?.closest('main form') instanceof HTMLElement ||
    document.querySelector('main[data-static]') !== null
  );
}

/** Fetches the page again and replaces its content, unless it must stay. */
async function refresh(to: string): Promise<void> {
  const focused = document.activeElement;
  if (isBusy()) return;
  isRefreshing = true;
  const reply = await fetch(location.href, { headers: { accept: 'text/html' } }).catch(() => null);
  isRefreshing = false;
  if (reply?.ok !== true || reply.redirected) return;
  version = to;
  const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
  const fresh = page.querySelector('main');
  if (fresh === null) return;
  const open = [...main().querySelectorAll('details')].map((one) => one.open);
  const focusedId = focused instanceof HTMLElement ? focused.id : '';
  main().replaceWith(fresh);
  fresh.querySelectorAll('details').forEach((one, n) => (one.open = open[n] ?? one.open));
  if (focusedId !== '') document.getElementById(focusedId)?.focus();
}

function showFreshness(): void {
  const mark = document.querySelector<HTMLElement>('[data-freshness]');
  if (mark === null) return;
  const silentMs = Date.now() - lastMessageAt;
  const isGone = isLoggedOut || silentMs > GONE_MS;
  mark.dataset['freshness'] = isGone ? 'gone' : 'live';
  const seconds = Math.round(silentMs / 1_000);
  mark.textContent = isLoggedOut
    ? 'logged out: reload the page'
    : isGone
      ? `no response for ${seconds} s`
      : `updated ${seconds} s ago`;
}

if (version !== undefined) {
  connect();
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return disconnect();
    lastMessageAt = Date.now();
    connect();
  });
  setInterval(showFreshness, 1_000);
}

// --- Notices ---

// Show a notice only once, not again after a reload.
const address = new URL(location.href);
if (address.searchParams.has('notice')) {
  address.searchParams.delete('notice');
  history.replaceState(null, '', address);
}

// --- Forms ---

function setButtons(form: HTMLFormElement, areEnabled: boolean): void {
  form
    .querySelectorAll<HTMLButtonElement>('button:not([hidden])')
    .forEach((one) => (one.disabled = !areEnabled));
}

// The back button may restore a page whose buttons were disabled by a submit.
window.addEventListener('pageshow', ({ persisted }) => {
  if (persisted) document.querySelectorAll('form').forEach((form) => setButtons(form, true));
});

// Disables buttons after a submit, and shows the progress of an upload.
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement)) return;
  if (form.method === 'dialog') return;
  const bar = form.querySelector<HTMLProgressElement>('progress[data-upload]');
  // Prevents double submits. Deferred: a disabled button would not send its own value.
  setTimeout(() => setButtons(form, false));
  if (bar === null) return;
  event.preventDefault();
  const request = new XMLHttpRequest();
  request.open('POST', form.action);
  request.setRequestHeader('accept', 'text/html');
  request.upload.addEventListener('progress', ({ loaded, total }) => {
    bar.hidden = false;
    bar.max = total;
    bar.value = loaded;
  });
  request.addEventListener('load', () => {
    if (request.status < 400 && request.responseURL !== form.action) {
      location.href = request.responseURL;
      return;
    }
    document.open();
    document.write(request.responseText);
    document.close();
  });
  request.addEventListener('error', () => {
    bar.hidden = true;
    setButtons(form, true);
    form.querySelector('[data-upload-error]')?.removeAttribute('hidden');
  });
  request.send(new FormData(form));
});

document.addEventListener('dragover', (event) => {
  if (document.querySelector('input[type=file]') !== null) event.preventDefault();
});
document.addEventListener('drop', (event) => {
  const field = document.querySelector<HTMLInputElement>('input[type=file]');
  const files = event.dataTransfer?.files;
  if (field === null || files === undefined || files.length === 0) return;
  event.preventDefault();
  field.files = files;
});

// --- Navigation on phones ---

document
  .querySelector('nav [aria-current]')
  ?.scrollIntoView({ inline: 'center', block: 'nearest', behavior: 'instant' });

// --- Copy buttons ---

// Only pages over TLS or from this machine may use the clipboard.
if (window.isSecureContext) document.documentElement.dataset['copies'] = '';

document.addEventListener('click', ({ target }) => {
  if (!(target instanceof HTMLButtonElement) || target.dataset['copy'] === undefined) return;
  const text = target.parentElement?.querySelector('pre')?.textContent ?? '';
  const showResult = (result: string): void => {
    target.textContent = result;
    setTimeout(() => (target.textContent = 'Copy'), 2_000);
  };
  navigator.clipboard.writeText(text).then(
    () => showResult('Copied'),
    () => showResult('Failed'),
  );
});

// --- Keyboard shortcuts ---

/** The URL that `g`, then a key, opens: section links name their key in the title. */
function shortcutUrl(key: string): string | undefined {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('.side nav a')];
  return links.find(({ title }) => title === `g ${key}`)?.href;
}

/** When `g` was pressed (ms since 1970). */
let gPressedAt = 0;

document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target instanceof HTMLElement && target.closest('input, textarea, select, dialog') !== null) {
    return;
  }
  const isAfterG = Date.now() - gPressedAt < 1_500;
  gPressedAt = key === 'g' ? Date.now() : 0;
  const url = isAfterG ? shortcutUrl(key) : undefined;
  if (url !== undefined) location.href = url;
  else if (key === '?') document.querySelector<HTMLDialogElement>('dialog#keys')?.showModal();
  else if (key === '/') {
    const search = document.querySelector<HTMLInputElement>('input[type=search]');
    if (search === null) location.href = '/items#search';
    else search.focus();
    event.preventDefault();
  }
});

if (location.hash === '#search') {
  document.querySelector<HTMLInputElement>('input[type=search]')?.focus();
}
