import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type { MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import type { Store } from '../store/store.js';
import type { DashboardContext, DashboardEnv, Door } from './context.js';

const CONTENT_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

/** Headers of every answer. */
export const headers: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  await next();
  const { headers: sent } = c.res;
  sent.set('content-security-policy', CONTENT_POLICY);
  sent.set('x-content-type-options', 'nosniff');
  sent.set('x-frame-options', 'DENY');
  // With `no-referrer`, browsers would send `Origin: null` with forms.
  sent.set('referrer-policy', 'same-origin');
  sent.set('cross-origin-opener-policy', 'same-origin');
  sent.set('cross-origin-resource-policy', 'same-origin');
  if (sent.get('cache-control')?.startsWith('public') !== true) {
    sent.set('cache-control', 'no-store');
  }
};

/**
 * Answers 421 to a request for another host: a page of the web whose name was made to point to this
 * machine sends that name (DNS rebinding).
 */
export function hostDoor({ hosts }: Door): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const host = hostOf(c);
    const local = c.env?.incoming?.socket.localAddress?.replace(/^::ffff:/, '');
    const isOurs =
      host === 'localhost' ||
      hosts.includes(host) ||
      // Without a socket, in a test: loopback.
      (isIP(host) > 0 && (local === undefined ? /^127\.|^::1$/.test(host) : host === local));
    // A whole URL in place of a path is for proxies: it may name another host, and a password.
    const isPath = c.env?.incoming?.url?.startsWith('/') ?? true;
    return isOurs && isPath ? await next() : c.text('this is not the host you asked for\n', 421);
  };
}

/** The name in `Host`, without port and brackets, in lower case. */
function hostOf(c: DashboardContext): string {
  const host = (c.req.header('host') ?? new URL(c.req.url).host).toLowerCase();
  return (
    /^\[([0-9a-f:.]+)\](?::\d+)?$|^([^:[\]]+)(?::\d+)?$/.exec(host)?.slice(1).find(Boolean) ?? ''
  );
}

/** The origin under which the browser sees the dashboard. */
function originOf(c: DashboardContext, { isSecure }: Door): string {
  const host = c.req.header('host') ?? new URL(c.req.url).host;
  return `${isSecure ? 'https' : 'http'}://${host.toLowerCase()}`;
}

/** Refuses a request that changes something unless a page of ours sent it. */
export function originDoor(door: Door): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    if (isSafe(c)) return next();
    if (c.req.header('origin') !== originOf(c, door)) {
      return c.text('refused: the request does not come from a page of this dashboard\n', 403);
    }
    return next();
  };
}

function isSafe(c: DashboardContext): boolean {
  return c.req.method === 'GET' || c.req.method === 'HEAD';
}

/** The text of a token's hash, as the store keeps it. */
export function tokenHash(token: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(createHash('sha256').update(token).digest());
}

/** A token that nobody guesses: 256 bits. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

/** The token that a session's forms carry. It tells nothing of the session's own. */
function formToken(sessionToken: string): string {
  return createHash('sha256').update(`form ${sessionToken}`).digest('base64url');
}

/** Whether the token that came with a request is that of its session. */
export function isFormToken(c: DashboardContext, given: unknown): boolean {
  if (typeof given !== 'string') return false;
  const [ours, theirs] = [c.get('token'), given].map((text) => tokenHash(text));
  return ours !== undefined && theirs !== undefined && timingSafeEqual(ours, theirs);
}

/** On TLS the browser itself guards a `__Host-` cookie against other hosts and plain HTTP. */
function cookieName(c: DashboardContext, { isSecure }: Door): string {
  // Browsers keep cookies by host: two dashboards on one host differ by their ports.
  const port = c.env?.incoming?.socket.localPort ?? 0;
  return isSecure ? '__Host-seller-mirror' : `seller-mirror-${port}`;
}

const COOKIE_SECONDS = 30 * 86_400;

/** Gives the browser a session's token. */
export function giveCookie(c: DashboardContext, door: Door, token: string): void {
  setCookie(c, cookieName(c, door), token, {
    httpOnly: true,
    sameSite: 'Strict',
    path: '/',
    secure: door.isSecure,
    // Longer than any session: the store says when it ends.
    maxAge: token === '' ? 0 : COOKIE_SECONDS,
  });
}

/** The session's token, as the browser sent it. */
export function cookieOf(c: DashboardContext, door: Door): string | null {
  return getCookie(c, cookieName(c, door)) ?? null;
}

/** Lets only those in who are logged in; sends others to the login page. */
export function sessionDoor(store: Store, door: Door): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const token = cookieOf(c, door);
    const session = token === null ? null : await store.access.session(tokenHash(token));
    if (session !== null && token !== null) {
      c.set('session', session);
      c.set('token', formToken(token));
      return next();
    }
    if (!isSafe(c) || !/text\/html|\*\/\*/.test(c.req.header('accept') ?? '*/*')) {
      return c.text('log in first\n', 401);
    }
    const { pathname, search } = new URL(c.req.url);
    const back = pathname === '/' ? '' : `?to=${encodeURIComponent(pathname + search)}`;
    return c.redirect(`/login${back}`, 303);
  };
}

/** Lets only operators do what changes something. */
export const operatorDoor: MiddlewareHandler<DashboardEnv> = async (c, next) => {
  if (isSafe(c) || c.get('session').role === 'operator') return next();
  return c.text('refused: your account may look, but not act\n', 403);
};

/** Most tries to log in within a minute. */
const TRIES_AN_ADDRESS = 5;
const TRIES_IN_ALL = 30;
const TRIES_MS = 60_000;

/** Counts tries to log in. */
export class LoginLimit {
  #tries: { readonly address: string; readonly at: number }[] = [];

  /** Enters a try. @returns seconds to wait when there were too many; 0: go ahead */
  enter(from: string, now = Date.now()): number {
    const address = networkOf(from);
    this.#tries = this.#tries.filter(({ at }) => at > now - TRIES_MS);
    const own = this.#tries.filter((one) => one.address === address);
    const full =
      own.length >= TRIES_AN_ADDRESS ? own : this.#tries.length >= TRIES_IN_ALL ? this.#tries : [];
    if (full[0] !== undefined) return Math.ceil((full[0].at + TRIES_MS - now) / 1_000);
    this.#tries.push({ address, at: now });
    return 0;
  }
}

/** What one person has: an address, or in IPv6 a network of 2^64 of them. Some proxies add a port. */
function networkOf(text: string): string {
  const address = /^\[(.+)\](?::\d+)?$|^([\d.]+):\d+$/.exec(text)?.slice(1).find(Boolean) ?? text;
  if (isIP(address) !== 6) return address;
  const [head = [], tail = []] = address.split('::').map((part) => part.split(':'));
  const zeros = Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0');
  return [...head, ...zeros, ...tail].slice(0, 4).join(':');
}

/** The address that asks: of the connection, or what our own proxy says of it. */
export function addressOf(c: DashboardContext, { isBehindProxy }: Door): string {
  // The last one is what the proxy itself saw; whatever stands before it, anybody can write.
  const forwarded = c.req.header('x-forwarded-for')?.split(',').at(-1)?.trim();
  if (isBehindProxy && forwarded !== undefined) return forwarded;
  return c.env?.incoming?.socket.remoteAddress ?? 'unknown';
}
