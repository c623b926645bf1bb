/** What the pages do beyond plain links and forms: live figures, keys, upload progress. */

const main = (): HTMLElement => document.querySelector('main') ?? document.body;

// --- Live figures ---

interface Live {
  /** Changes when a page may look different. */
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

/** Time before a stream that the server refused is asked for again (ms). */
const RETRY_MS = 4_000;

let source: EventSource | null = null;
/** What the page shows; the server sends another version when it may look different. */
let version = document.body.dataset['version'];
let isRefreshing = false;
let heardAt = Date.now();
let isLoggedOut = false;

function listen(): void {
  if (source !== null || document.hidden) return;
  source = new EventSource('/events');
  source.addEventListener('error', () => {
    // Browsers ask again after a broken connection, but not after an answer that is no stream, such as
    // one without a database, of a proxy without a server, or without a session.
    if (source?.readyState !== EventSource.CLOSED) return;
    source = null;
    setTimeout(() => void listenAgain(), RETRY_MS);
  });
  source.addEventListener('live', ({ data }: MessageEvent<string>) => {
    heardAt = Date.now();
    const live = JSON.parse(data) as Live;
    live.bars.forEach(showBar);
    if (version !== live.version && !isRefreshing) void refresh(live.version);
  });
}

async function listenAgain(): Promise<void> {
  const headers = { accept: 'text/event-stream' };
  const reply = await fetch('/codes', { method: 'HEAD', headers }).catch(() => null);
  isLoggedOut = reply?.status === 401;
  // The page goes with the session, but not what somebody types in it.
  if (isLoggedOut && !isBusy()) location.reload();
  else listen();
}

function hush(): void {
  source?.close();
  source = null;
}

function showBar({ id, done, total, text }: Live['bars'][number]): void {
  for (const place of document.querySelectorAll<HTMLElement>('[data-live]')) {
    if (place.dataset['live'] !== id) continue;
    const bar = place.querySelector('progress');
    if (bar !== null && total !== null) {
      bar.max = Math.max(1, total);
      bar.value = done;
    } else {
      bar?.removeAttribute('value');
    }
    const words = place.querySelector('[data-live-text]');
    if (words !== null) words.textContent = text;
  }
}

/** Whether somebody may be typing, or the page is one that stays as it is. */
function isBusy(): boolean {
  return (
    document.activeElement?.closest('main form') instanceof HTMLElement ||
    document.querySelector('main[data-still]') !== null
  );
}

/** Fetches the page again and puts its new content in place, unless somebody is busy in it. */
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
  const silentMs = Date.now() - heardAt;
  const isGone = isLoggedOut || silentMs > GONE_MS;
  mark.dataset['freshness'] = isGone ? 'gone' : 'live';
  const seconds = Math.round(silentMs / 1_000);
  mark.textContent = isLoggedOut
    ? 'logged out: reload the page'
    : isGone
      ? `no answer from the server for ${seconds} s`
      : `updated ${seconds} s ago`;
}

if (version !== undefined) {
  listen();
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return hush();
    heardAt = Date.now();
    listen();
  });
  setInterval(showFreshness, 1_000);
}

// --- What was done ---

// It is told once: not again when the page is loaded again or changes.
const address = new URL(location.href);
if (address.searchParams.has('notice')) {
  address.searchParams.delete('notice');
  history.replaceState(null, '', address);
}

// --- Forms ---

function setButtons(form: HTMLFormElement, areEnabled: boolean): void {
  form.querySelectorAll('button').forEach((one) => (one.disabled = !areEnabled));
}

// The page that the back button shows is the one that was left, with its buttons as they were.
window.addEventListener('pageshow', ({ persisted }) => {
  if (persisted) document.querySelectorAll('form').forEach((form) => setButtons(form, true));
});

/** Sends a form with a file so that its progress shows; the plain form does the same without. */
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement)) return;
  if (form.method === 'dialog') return;
  const bar = form.querySelector<HTMLProgressElement>('progress[data-upload]');
  // A second click would do it twice. Later, since the form carries the button's own value.
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

// --- The strip of sections on a phone ---

document
  .querySelector('nav [aria-current]')
  ?.scrollIntoView({ inline: 'center', block: 'nearest', behavior: 'instant' });

// --- Texts to copy ---

// Browsers give the clipboard to pages over TLS and of this machine only.
if (window.isSecureContext) document.documentElement.dataset['copies'] = '';

document.addEventListener('click', ({ target }) => {
  if (!(target instanceof HTMLButtonElement) || target.dataset['copy'] === undefined) return;
  const text = target.parentElement?.querySelector('pre')?.textContent ?? '';
  const say = (word: string): void => {
    target.textContent = word;
    setTimeout(() => (target.textContent = 'Copy'), 2_000);
  };
  navigator.clipboard.writeText(text).then(
    () => say('Copied'),
    () => say('Not copied'),
  );
});

// --- Keys ---

/** Where a key leads after `g`: the links of the sections say it. */
function placeOf(key: string): string | undefined {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('.side nav a')];
  return links.find(({ title }) => title === `g ${key}`)?.href;
}

let goesAt = 0;

document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target instanceof HTMLElement && target.closest('input, textarea, select, dialog') !== null) {
    return;
  }
  const isSecond = Date.now() - goesAt < 1_500;
  goesAt = key === 'g' ? Date.now() : 0;
  const place = isSecond ? placeOf(key) : undefined;
  if (place !== undefined) location.href = place;
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
