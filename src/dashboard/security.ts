import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { csrf } from 'hono/csrf';
import { secureHeaders } from 'hono/secure-headers';
import { oneLine } from '../domain/text.js';
import { prefer } from '../service/listen.js';
import type { DashboardContext, DashboardEnv, Endpoint } from './context.js';
import { message } from './layout.js';
import type { Db } from '../db/db.js';
import { findSession } from './access-store.js';
import { pageBefore } from './query.js';

/** A year (s). Only sent over TLS: browsers then refuse plain HTTP for this host. */
const HSTS = `max-age=${365 * 86_400}`;

/** Sets the security headers of every response. */
export function setHeaders({ isSecure }: Endpoint): MiddlewareHandler<DashboardEnv> {
  const secure = secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", 'data:'],
      connectSrc: ["'self'"],
      formAction: ["'self'"],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
    strictTransportSecurity: isSecure ? HSTS : false,
    xFrameOptions: 'DENY',
    // With `no-referrer`, browsers send `Origin: null` with forms.
    referrerPolicy: 'same-origin',
  });
  return async (c, next) => {
    await secure(c, next);
    const { headers: sent } = c.res;
    if (sent.get('cache-control')?.startsWith('public') !== true) {
      sent.set('cache-control', 'no-store');
    }
  };
}

/**
 * Answers 421 to requests for another host. This stops DNS rebinding: a foreign page whose host name
 * points to this machine sends that name.
 */
export function checkHost({ hosts }: Endpoint): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const host = hostOf(c);
    const local = c.env?.incoming?.socket.localAddress?.replace(/^::ffff:/, '');
    const isOurs =
      host === 'localhost' ||
      hosts.includes(host) ||
      // Tests have no socket: accept loopback addresses.
      (isIP(host) > 0 && (local === undefined ? /^127\.|^::1$/.test(host) : host === local));
    // A full URL as the request target may name another host. Only proxies need it.
    const isPath = c.env?.incoming?.url?.startsWith('/') ?? true;
    if (isOurs && isPath) return next();
    const expected = [...new Set(['localhost', local ?? '127.0.0.1', ...hosts])].join(', ');
    return c.text(
      `unknown host ${quoted(host)}: this dashboard is reached as ${expected}. Set DASHBOARD_HOSTS to allow another name\n`,
      421,
    );
  };
}

/** What a client sent, for a message: one short line. */
function quoted(text: string): string {
  return JSON.stringify(oneLine(text, 100));
}

/** The `Host` header in lower case, without port and brackets; empty when malformed. */
function hostOf(c: DashboardContext): string {
  const host = (c.req.header('host') ?? new URL(c.req.url).host).toLowerCase();
  return (
    /^\[([0-9a-f:.]+)\](?::\d+)?$|^([^:[\]]+)(?::\d+)?$/.exec(host)?.slice(1).find(Boolean) ?? ''
  );
}

/** The dashboard's origin as the browser sees it. */
export function originOf(c: DashboardContext, { isSecure }: Endpoint): string {
  const host = c.req.header('host') ?? new URL(c.req.url).host;
  return `${isSecure ? 'https' : 'http'}://${host.toLowerCase()}`;
}

/** Forms, as browsers send them. Everything else was not sent by a page of the dashboard. */
const FORM = /^(?:application\/x-www-form-urlencoded|multipart\/form-data)\b/i;

/**
 * Refuses forms unless `Origin` is the dashboard's own. `Sec-Fetch-Site` alone does not suffice: browsers leave it out on
 * plain HTTP.
 */
export function checkOrigin(endpoint: Endpoint): MiddlewareHandler<DashboardEnv> {
  const guard = csrf({
    origin: (origin, c) => origin === originOf(c as DashboardContext, endpoint),
    secFetchSite: () => false,
  });
  return async (c, next) => {
    if (!isSafe(c) && !FORM.test(c.req.header('content-type') ?? ''))
      return refuseForm(c, endpoint);
    return guard(c, next);
  };
}

/** Says which origin a form had, and which one it should have: behind a proxy the two may differ. */
export function refuseForm(c: DashboardContext, endpoint: Endpoint): Response {
  const given = c.req.header('origin');
  const came = given === undefined ? 'no page' : quoted(given);
  return c.text(
    `refused: the form came from ${came}, and this dashboard is ${quoted(originOf(c, endpoint))}. A proxy must forward the Host header\n`,
    403,
  );
}

function isSafe(c: DashboardContext): boolean {
  return c.req.method === 'GET' || c.req.method === 'HEAD';
}

/** The hash of a token, as the store keeps it. */
export function tokenHash(token: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHash('sha256').update(token).digest());
}

/** A random token of 256 bits. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Derives the token for a session's forms. It does not reveal the session token. */
function formToken(sessionToken: string): string {
  return createHash('sha256').update(`form ${sessionToken}`).digest('base64url');
}

/** Whether a form's token belongs to the request's session. */
export function isFormToken(c: DashboardContext, given: unknown): boolean {
  return typeof given === 'string' && timingSafeEqual(tokenHash(c.get('token')), tokenHash(given));
}

/** On TLS, `__Host-` makes browsers reject the cookie from other hosts and plain HTTP. */
function cookieName(c: DashboardContext, { isSecure }: Endpoint): string {
  // Browsers share cookies between ports, so two dashboards on one host need different names.
  const port = c.env?.incoming?.socket.localPort ?? 0;
  return isSecure ? '__Host-seller-mirror' : `seller-mirror-${port}`;
}

const COOKIE_SECONDS = 30 * 86_400;

/** Sends the session token to the browser; an empty token deletes the cookie. */
export function setSessionCookie(c: DashboardContext, endpoint: Endpoint, token: string): void {
  setCookie(c, cookieName(c, endpoint), token, {
    httpOnly: true,
    sameSite: 'Strict',
    path: '/',
    secure: endpoint.isSecure,
    // Longer than any session: the store decides when a session ends.
    maxAge: token === '' ? 0 : COOKIE_SECONDS,
  });
}

/** The session token that the browser sent; null without one. */
export function sessionCookie(c: DashboardContext, endpoint: Endpoint): string | null {
  return getCookie(c, cookieName(c, endpoint)) ?? null;
}

/** Marks requests of the page's script, which don't keep a session alive. */
const REFRESH_HEADER = 'x-refresh';

/** Loads the session. Without one, pages redirect to the login; forms get a link to it. */
export function requireSession(db: Db, endpoint: Endpoint): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const token = sessionCookie(c, endpoint);
    // Browsers reconnect to the event stream by themselves, and can't send the header with it.
    const isUse = c.req.header(REFRESH_HEADER) === undefined && c.req.path !== '/events';
    const session = token === null ? null : await findSession(db, tokenHash(token), isUse);
    if (session !== null && token !== null) {
      c.set('session', session);
      c.set('token', formToken(token));
      const socket = c.env?.incoming?.socket;
      if (socket !== undefined) prefer(socket);
      return next();
    }
    if (!/text\/html|\*\/\*/.test(c.req.header('accept') ?? '*/*')) {
      return c.text('not logged in\n', 401);
    }
    const { pathname, search } = new URL(c.req.url);
    if (isSafe(c)) return c.redirect(loginPath(pathname + search), 303);
    const link = { path: loginPath(pageBefore(c)), label: 'Log in' };
    const text = 'Your session has ended. Log in, then fill in the form again.';
    return message(c, 401, 'Nothing was changed', text, link);
  };
}

/** The login that leads to this path. */
function loginPath(to: string): string {
  return to === '/' ? '/login' : `/login?to=${encodeURIComponent(to)}`;
}

/** Refuses unsafe methods to viewers. */
export const requireOperator: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  if (isSafe(c) || c.get('session').role === 'operator') return next();
  return c.text('refused: viewers can’t make changes\n', 403);
};

/** Login attempts allowed within `ATTEMPT_WINDOW_MS`. */
const MAX_ATTEMPTS_PER_ADDRESS = 5;
const MAX_ATTEMPTS = 30;
const ATTEMPT_WINDOW_MS = 60_000;
/** Addresses kept of people who have logged in. */
const MAX_KNOWN = 1_000;

/** Limits the rate of logins with a password. */
export class LoginLimit {
  #attempts: { readonly address: string; readonly at: number }[] = [];
  /** Addresses that have logged in: attempts from elsewhere don't lock them out. */
  readonly #known = new Set<string>();

  /** Counts an attempt unless there were too many. @returns seconds to wait; 0 when allowed */
  attempt(from: string): number {
    const now = performance.now();
    const address = networkOf(from);
    this.#attempts = this.#attempts.filter(({ at }) => at > now - ATTEMPT_WINDOW_MS);
    const own = this.#attempts.filter((one) => one.address === address);
    const others = this.#known.has(address) ? [] : this.#attempts;
    const isBlocked = own.length >= MAX_ATTEMPTS_PER_ADDRESS || others.length >= MAX_ATTEMPTS;
    if (!isBlocked) {
      this.#attempts.push({ address, at: now });
      return 0;
    }
    const [oldest] = own.length >= MAX_ATTEMPTS_PER_ADDRESS ? own : this.#attempts;
    return Math.ceil(((oldest?.at ?? now) + ATTEMPT_WINDOW_MS - now) / 1_000);
  }

  /** Remembers an address that has logged in. */
  succeeded(from: string): void {
    const [oldest] = this.#known;
    if (this.#known.size >= MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    this.#known.add(networkOf(from));
  }
}

/** The address without a port, which some proxies add; for IPv6 its /64 network, which one person owns. */
function networkOf(text: string): string {
  const address = /^\[(.+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(text)?.slice(1).find(Boolean) ?? text;
  if (isIP(address) !== 6) return address;
  const [head = [], tail = []] = address.split('::').map((part) => part.split(':'));
  const zeros = Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0');
  return [...head, ...zeros, ...tail].slice(0, 4).join(':');
}

/** The client's address: the connection's, or behind a proxy the one the proxy reports. */
export function clientAddress(c: DashboardContext, { isBehindProxy }: Endpoint): string {
  // Only the last entry comes from the proxy itself. Clients can forge the others.
  const forwarded = c.req.header('x-forwarded-for')?.split(',').at(-1)?.trim();
  if (isBehindProxy && forwarded !== undefined) return forwarded;
  return c.env?.incoming?.socket.remoteAddress ?? 'unknown';
}
