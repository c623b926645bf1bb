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

let source: EventSource | null = null;
/** What the page shows; the server sends another version when it may look different. */
let version = document.body.dataset['version'];
let isRefreshing = false;
let heardAt = Date.now();

function listen(): void {
  if (source !== null || document.hidden) return;
  source = new EventSource('/events');
  heardAt = Date.now();
  source.addEventListener('live', ({ data }: MessageEvent<string>) => {
    heardAt = Date.now();
    const live = JSON.parse(data) as Live;
    live.bars.forEach(showBar);
    if (version !== live.version && !isRefreshing) void refresh(live.version);
  });
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

/** Fetches the page again and puts its new content in place, unless somebody is typing in it. */
async function refresh(to: string): Promise<void> {
  const focused = document.activeElement;
  const isTyping = focused instanceof HTMLElement && focused.closest('main form') !== null;
  if (isTyping || document.querySelector('main[data-still]') !== null) return;
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
  const isGone = silentMs > GONE_MS;
  mark.dataset['freshness'] = isGone ? 'gone' : 'live';
  const seconds = Math.round(silentMs / 1_000);
  mark.textContent = isGone
    ? `no answer from the server for ${seconds} s`
    : `updated ${seconds} s ago`;
}

if (version !== undefined) {
  listen();
  document.addEventListener('visibilitychange', () => (document.hidden ? hush() : listen()));
  setInterval(showFreshness, 1_000);
}

// --- Forms ---

/** A button that waits for a number to be typed again. */
function checkRetyped(field: HTMLInputElement): void {
  const button = field.form?.querySelector<HTMLButtonElement>('button[data-needs-retype]');
  if (button) button.disabled = field.value.trim() !== field.dataset['retype'];
}

document.addEventListener('input', ({ target }) => {
  if (target instanceof HTMLInputElement && target.dataset['retype'] !== undefined) {
    checkRetyped(target);
  }
});
document.querySelectorAll<HTMLInputElement>('input[data-retype]').forEach(checkRetyped);

/** Sends a form with a file so that its progress shows; the plain form does the same without. */
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement)) return;
  const bar = form.querySelector<HTMLProgressElement>('progress[data-upload]');
  if (bar === null) {
    // A second click would do it twice.
    setTimeout(() => form.querySelectorAll('button').forEach((one) => (one.disabled = true)));
    return;
  }
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

const PLACES: Readonly<Record<string, string>> = {
  o: '/',
  r: '/runs',
  c: '/changes',
  i: '/items',
  a: '/audits',
  p: '/codes',
  e: '/reports',
  s: '/system',
};

let goesAt = 0;

document.addEventListener('keydown', (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target instanceof HTMLElement && target.closest('input, textarea, select, dialog') !== null) {
    return;
  }
  const isSecond = Date.now() - goesAt < 1_500;
  goesAt = key === 'g' ? Date.now() : 0;
  if (isSecond && PLACES[key] !== undefined) location.href = PLACES[key];
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
