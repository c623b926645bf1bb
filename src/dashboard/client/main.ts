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
    readonly endsAt: string | null;
  }[];
}

/** Without a message for this long (ms), the server counts as gone. It sends one each second. */
const GONE_MS = 8_000;

/** Time until a refused stream is requested again (ms). */
const RETRY_MS = 4_000;

/** Version of the page's content, as in `LiveMessage`. */
let version = document.body.dataset['version'];
let isRefreshing = false;
let lastMessageAt = Date.now();
let isLoggedOut = false;

/** Aborted when this tab no longer wants messages; null while it does not. */
let watching: AbortController | null = null;

function receive(live: LiveMessage): void {
  lastMessageAt = Date.now();
  isLoggedOut = false;
  live.bars.forEach(updateBar);
  if (version !== live.version && !isRefreshing) void refresh(live.version);
}

/** Receives messages while the tab is visible. */
function connect(): void {
  if (watching !== null || document.hidden) return;
  watching = new AbortController();
  const { signal } = watching;
  const channel = new BroadcastChannel('live');
  channel.addEventListener('message', ({ data }: MessageEvent<LiveMessage>) => receive(data));
  signal.addEventListener('abort', () => channel.close());
  // Only one tab reads the stream: with HTTP/1.1, browsers open six connections to a host. Locks need TLS
  // or this machine.
  if (window.isSecureContext) {
    navigator.locks.request('live', { signal }, () => read(signal, channel)).catch(() => undefined);
  } else {
    void read(signal, channel);
  }
}

function disconnect(): void {
  watching?.abort();
  watching = null;
}

/** Reads the stream until the signal aborts, for this tab and the others. */
function read(signal: AbortSignal, channel: BroadcastChannel): Promise<void> {
  return new Promise((resolve) => {
    let source: EventSource;
    const open = (): void => {
      source = new EventSource('/events');
      source.addEventListener('error', () => {
        // Browsers reconnect after a broken connection, but not after an error response, such as during
        // an outage or without a session.
        if (source.readyState === EventSource.CLOSED) setTimeout(() => void retry(), RETRY_MS);
      });
      source.addEventListener('live', ({ data }: MessageEvent<string>) => {
        const live = JSON.parse(data) as LiveMessage;
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin
        channel.postMessage(live);
        receive(live);
      });
    };
    const retry = async (): Promise<void> => {
      if (signal.aborted) return;
      await checkSession();
      if (signal.aborted) return;
      // The next tab then learns it by itself. The user may log in again there.
      if (isLoggedOut) {
        disconnect();
        setTimeout(connect, RETRY_MS);
      } else open();
    };
    signal.addEventListener('abort', () => {
      source.close();
      resolve();
    });
    open();
  });
}

async function checkSession(): Promise<void> {
  const headers = { accept: 'text/event-stream', 'x-refresh': 'live' };
  const reply = await fetch('/codes', { method: 'HEAD', headers }).catch(() => null);
  isLoggedOut = reply?.status === 401;
  // Reloading leads to the login, but must not discard what the user types.
  if (isLoggedOut && !isBusy()) location.reload();
}

function updateBar({ id, done, total, text, endsAt }: LiveMessage['bars'][number]): void {
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
    const end = element.querySelector('[data-live-end]');
    if (end !== null) end.textContent = endsAt === null ? '' : `ends ${whenText(endsAt, 'minute')}`;
  }
}

/** Whether the content must stay: the user fills in or has sent a form, or the page is static. */
function isBusy(): boolean {
  const content = main();
  return (
    content.dataset['static'] !== undefined ||
    document.activeElement?.matches('main form :is(input, select, textarea)') === true ||
    content.querySelector('form button:disabled:not([hidden])') !== null ||
    (getSelection()?.isCollapsed === false &&
      content.contains(getSelection()?.anchorNode ?? null)) ||
    [...content.querySelectorAll('input, select, textarea')].some(isChanged)
  );
}

/** Whether a field differs from what the server sent. */
function isChanged(field: Element): boolean {
  if (field instanceof HTMLSelectElement) {
    const options = [...field.options];
    const sent = options.findIndex(({ defaultSelected }) => defaultSelected);
    return field.selectedIndex !== Math.max(0, sent);
  }
  if (field instanceof HTMLInputElement && /checkbox|radio/.test(field.type)) {
    return field.checked !== field.defaultChecked;
  }
  const { value, defaultValue } = field as HTMLInputElement | HTMLTextAreaElement;
  return value !== defaultValue;
}

/** How long a notice stays at least (ms). */
const NOTICE_MS = 10_000;

/** Fetches the page again and replaces its content, unless it must stay. */
async function refresh(to: string): Promise<void> {
  if (isBusy()) return;
  isRefreshing = true;
  const headers = { accept: 'text/html', 'x-refresh': 'live' };
  const reply = await fetch(location.href, { headers }).catch(() => null);
  const text = (await reply?.text().catch(() => null)) ?? null;
  isRefreshing = false;
  // The user may have begun to type meanwhile. The next message tries again.
  if (reply === null || text === null || isBusy()) return;
  // After an outage, the next message tries again.
  if (reply.status < 500) version = to;
  if (!reply.ok || reply.redirected) return;
  const page = new DOMParser().parseFromString(text, 'text/html');
  const [fresh, who] = [page.querySelector('main'), page.querySelector('.who')];
  if (fresh === null) return;
  // Another tab logged in as somebody else: the whole page is outdated.
  if (who?.textContent !== document.querySelector('.who')?.textContent) return location.reload();
  const notice = performance.now() < NOTICE_MS ? main().querySelector('[data-notice]') : null;
  if (notice !== null) fresh.querySelector('.head')?.after(notice);
  const before = [...elementsByName(main())].map(([name, element]) => ({
    name,
    isFocused: element === document.activeElement,
    isOpen: element.parentElement?.hasAttribute('open') === true,
    scrollLeft: element.scrollLeft,
  }));
  showLocalTimes(fresh);
  main().replaceWith(fresh);
  const sections = page.querySelector('#menu nav');
  if (sections !== null) document.querySelector('#menu nav')?.replaceWith(sections);
  const after = elementsByName(fresh);
  for (const { name, isFocused, isOpen, scrollLeft } of before) {
    const element = after.get(name);
    if (element === undefined) continue;
    if (element.localName === 'summary') element.parentElement?.toggleAttribute('open', isOpen);
    element.scrollLeft = scrollLeft;
    if (isFocused) element.focus({ preventScroll: true });
  }
}

/** Elements that can be focused, scrolled or opened, by a name that stays the same after a refresh. */
function elementsByName(content: HTMLElement): Map<string, HTMLElement> {
  const elements = new Map<string, HTMLElement>();
  const all = 'a, button, input, select, textarea, summary, [tabindex]';
  for (const element of [content, ...content.querySelectorAll<HTMLElement>(all)]) {
    const given = ['id', 'href', 'name', 'aria-label'].map((name) => element.getAttribute(name));
    const name = `${element.localName} ${given.find(Boolean) ?? element.textContent}`;
    let n = 1;
    while (elements.has(`${name} ${n}`)) n += 1;
    elements.set(`${name} ${n}`, element);
  }
  return elements;
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

// --- Times ---

const MOMENT = new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle: 'medium' });

/** `2026-11-23 08:00:05` in the reader's time zone. */
function momentText(iso: string): string {
  return MOMENT.format(new Date(iso));
}

const CLOCK = { hour: '2-digit', minute: '2-digit' } as const;

/** As `whenText` of the server: `today, 07:33`, `21 Nov, 03:10`, or `21 Nov 2025`; in the reader's time zone. */
function whenText(iso: string, form: string): string {
  const [at, now] = [new Date(iso), new Date()];
  const day = (year?: 'numeric') => (of: Date) =>
    of
      .toLocaleDateString('en-GB', { day: 'numeric', month: 'short', ...(year ? { year } : {}) })
      .replace('Sept', 'Sep');
  if (at.getFullYear() !== now.getFullYear()) return day('numeric')(at);
  const isToday = day()(at) === day()(now);
  const date = isToday ? 'today' : day()(at);
  if (form === 'day' || (form === 'second' && !isToday)) return date;
  const seconds = form === 'second' ? ({ second: '2-digit' } as const) : {};
  const time = at.toLocaleTimeString('en-GB', { ...CLOCK, ...seconds });
  return form === 'second' ? time : `${date}, ${time}`;
}

/** Shows exact times in the reader's zone. Tooltips keep them in UTC. */
function showLocalTimes(content: ParentNode): void {
  for (const time of content.querySelectorAll('time')) {
    const { when } = time.dataset;
    if (when !== undefined) time.textContent = whenText(time.dateTime, when);
    else if (time.dataset['ago'] === undefined) time.textContent = momentText(time.dateTime);
    else time.title = `${momentText(time.dateTime)} (${time.title})`;
  }
  const zone = content.querySelector('[data-zone]');
  if (zone !== null) zone.textContent = MOMENT.resolvedOptions().timeZone;
}

showLocalTimes(document);

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
  showUploadMessage('');
  const request = new XMLHttpRequest();
  request.open('POST', form.action);
  request.setRequestHeader('accept', 'text/html');
  request.responseType = 'document';
  request.upload.addEventListener('progress', ({ loaded, total }) => {
    bar.hidden = false;
    bar.max = total;
    bar.value = loaded;
  });
  request.addEventListener('load', () => {
    if (request.status < 400 && request.responseURL !== form.action) {
      location.href = request.responseURL;
    } else {
      const texts = [...(request.responseXML?.querySelectorAll('main h1, [data-remedy]') ?? [])];
      fail(
        texts.map((one) => one.textContent).join('. ') || `The upload failed (${request.status}).`,
      );
    }
  });
  request.addEventListener('error', () => {
    fail('The upload failed. Check your connection and try again.');
  });
  const fail = (why: string): void => {
    bar.hidden = true;
    setButtons(form, true);
    showUploadMessage(why);
  };
  request.send(new FormData(form));
});

function showUploadMessage(text: string): void {
  const message = document.querySelector<HTMLElement>('[data-upload-error]');
  if (message === null) return;
  message.textContent = text;
  message.hidden = text === '';
}

document.addEventListener('dragover', (event) => {
  if (document.querySelector('input[type=file]') !== null) event.preventDefault();
});
document.addEventListener('drop', (event) => {
  const field = document.querySelector<HTMLInputElement>('input[type=file]');
  const [file, ...others] = event.dataTransfer?.files ?? [];
  if (field === null || file === undefined) return;
  event.preventDefault();
  const taken = new DataTransfer();
  taken.items.add(file);
  field.files = taken.files;
  const onlyOne = `Only ${file.name} was taken: one list at a time.`;
  showUploadMessage(others.length === 0 ? '' : onlyOne);
});

// --- Copy and share ---

document.documentElement.dataset['copies'] = '';
if ('share' in navigator) document.documentElement.dataset['shares'] = '';

/** Copies a text, also on plain HTTP, where browsers hide the clipboard from scripts. */
async function copy(text: string): Promise<boolean> {
  if (window.isSecureContext) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'unseen';
  document.body.append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  return isDone;
}

/** Says for three seconds what was done. */
function toast(text: string): void {
  const line = document.querySelector<HTMLElement>('[data-toast]');
  if (line === null) return;
  line.textContent = text;
  line.dataset['toast'] = 'shown';
  setTimeout(() => (line.dataset['toast'] = ''), 3_000);
}

document.addEventListener('click', ({ target }) => {
  const button = target instanceof Element ? target.closest('button') : null;
  const { copy: given, share, done = 'Copied' } = button?.dataset ?? {};
  if (share !== undefined) void navigator.share({ text: share }).catch(() => undefined);
  if (given === undefined) return;
  const text =
    given === '' ? (button?.parentElement?.querySelector('pre')?.textContent ?? '') : given;
  void copy(text).then((isDone) => toast(isDone ? done : 'Select the text and copy it.'));
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
