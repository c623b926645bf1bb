import {
  frameworkError,
  htmlAnswer,
  jsonAnswer,
  redirectAnswer,
  serverError,
  textAnswer,
  type Answer,
} from './answer.js';
import type { Language } from './profiles.js';
import type { Operation } from './types.js';

/** The `Retry-After` header of a fault. */
interface RetryAfter {
  /** Seconds; none if null or absent. */
  readonly retryAfter?: number | null;
  readonly form?: 'seconds' | 'date';
}

/** A fault of a reply. Sizes count the bytes of the body before compression. */
export type Fault =
  | ({ readonly kind: 'rate-limited'; readonly body?: 'json' | 'html' } & RetryAfter)
  /** A 5xx from Laravel's debug mode. With `echo`, it shows the request's URL and input, including the key. */
  | {
      readonly kind: 'server-error';
      readonly status?: number;
      readonly body?: 'json' | 'html';
      readonly echo?: boolean;
    }
  | ({ readonly kind: 'maintenance'; readonly body?: 'json' | 'html' } & RetryAfter)
  | { readonly kind: 'maintenance-redirect' }
  /** The API is switched off, or the site is in demo mode: 404 without the envelope. */
  | { readonly kind: 'switched-off'; readonly body: 'json' | 'html' }
  | { readonly kind: 'challenge'; readonly status?: 403 | 429 | 503 }
  | { readonly kind: 'html'; readonly status?: number }
  | { readonly kind: 'empty'; readonly status?: number }
  /** Valid JSON that is not an envelope. */
  | { readonly kind: 'wrong-type'; readonly json: 'array' | 'string' | 'null' | 'number' }
  | {
      readonly kind: 'reply';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body: string;
    }
  | {
      readonly kind: 'redirect';
      readonly to: 'home' | 'trailing-slash' | 'https' | 'origin';
      /** Target of `origin`. The redirect keeps path and query, and so the key. */
      readonly origin?: string;
      /** Port of `https`. */
      readonly port?: number;
      readonly status?: 301 | 302 | 303 | 307 | 308;
    }
  | { readonly kind: 'key-refused' }
  /** Refuses requests with a parameter that the API does not have. */
  | { readonly kind: 'parameter-refused'; readonly status: 400 | 403 | 414 | 422 }
  | { readonly kind: 'translated'; readonly language: Language }
  /** Text in front of the body. The named ones are what PHP servers send. */
  | {
      readonly kind: 'prefix';
      readonly text: 'bom' | 'whitespace' | 'php-warnings' | { readonly raw: string };
    }
  | ({
      readonly kind: 'truncate';
      /**
       * `destroy`: the connection of a chunked body ends without the last chunk. `clean`: the body is too short,
       * but ends properly. `short`: the body has fewer bytes than its Content-Length.
       */
      readonly how: 'destroy' | 'clean' | 'short';
    } & CutPoint)
  | { readonly kind: 'slow'; readonly chunkBytes: number; readonly pauseMs: number }
  | { readonly kind: 'stall'; readonly ms: number }
  /** Resets the connection, before the headers or after `afterBytes` of the body. */
  | { readonly kind: 'reset'; readonly afterBytes?: number }
  /** Compresses the body, even if the client does not accept that. */
  | { readonly kind: 'encoding'; readonly encoding: 'gzip' | 'br' | 'deflate' };

/** A number of bytes, or a fraction (0 to 1) of the whole. */
type CutPoint = { readonly bytes: number } | { readonly fraction: number };

type Target = Operation | 'any';

interface PlannedFault {
  readonly target: Target;
  readonly fault: Fault;
  times: number;
}

/** Planned faults. A request gets the oldest matching `next` and every matching `always`. */
export class Faults {
  #next: PlannedFault[] = [];
  #always: PlannedFault[] = [];

  /** Applies a fault to the next `times` requests of the operation. */
  next(target: Target, fault: Fault, times = 1): void {
    this.#next.push({ target, fault, times });
  }

  always(target: Target, fault: Fault): void {
    this.#always.push({ target, fault, times: Number.POSITIVE_INFINITY });
  }

  clear(): void {
    this.#next = [];
    this.#always = [];
  }

  /** The faults of one request. Uses up the `next` fault. */
  take(operation: Operation): Fault[] {
    const matches = ({ target }: PlannedFault): boolean => target === 'any' || target === operation;
    const faults = this.#always.filter(matches).map(({ fault }) => fault);
    const first = this.#next.find(matches);
    if (first === undefined) return faults;
    first.times--;
    if (first.times <= 0) this.#next = this.#next.filter((planned) => planned !== first);
    return [...faults, first.fault];
  }
}

interface FaultContext {
  readonly host: string;
  /** Path and query as received. */
  readonly target: string;
  readonly now: number;
  /** All parameters, including the key. */
  readonly input: Readonly<Record<string, string>>;
  /** The parameter that keeps caches from answering; null without it. */
  readonly random: string | null;
}

const WRONG_TYPES = { array: '[]', string: '"success"', null: 'null', number: '42' } as const;

/** The answer that replaces the usual one; null if the fault only changes how that is sent. */
export function faultAnswer(fault: Fault, context: FaultContext): Answer | null {
  const { host, target, input, random, now } = context;
  switch (fault.kind) {
    case 'rate-limited':
      return frameworkError(429, 'Too Many Attempts.', fault.body !== 'html', {
        'X-RateLimit-Remaining': '0',
        'X-RateLimit-Reset': String(Math.ceil(now / 1000 + (fault.retryAfter ?? 60))),
        ...retryHeaders(fault, now),
      });
    case 'server-error': {
      const echo = fault.echo === true ? { url: `http://${host}${target}`, input } : {};
      return serverError(fault.status ?? 500, fault.body ?? 'json', echo);
    }
    case 'maintenance': {
      const headers = retryHeaders(fault, now);
      return frameworkError(503, 'Service Unavailable', fault.body === 'json', headers);
    }
    case 'maintenance-redirect':
      return redirectAnswer(302, `http://${host}/maintenance`);
    case 'parameter-refused':
      return random === null ? null : frameworkError(fault.status, 'Bad parameters.', true);
    case 'switched-off':
      return frameworkError(404, '', fault.body === 'json');
    case 'challenge':
      return htmlAnswer(fault.status ?? 403, 'Just a moment...', {
        'cf-mitigated': 'challenge',
        Server: 'cloudflare',
      });
    case 'html':
      return htmlAnswer(fault.status ?? 200, 'Welcome');
    case 'empty':
      return jsonAnswer(fault.status ?? 200, '');
    case 'wrong-type':
      return jsonAnswer(200, WRONG_TYPES[fault.json]);
    case 'reply':
      return textAnswer(fault.status, fault.body, fault.headers);
    case 'redirect':
      return redirectAnswer(fault.status ?? 302, locationOf(fault, context));
    default:
      return null;
  }
}

function locationOf(
  { to, origin = '', port = 443 }: Extract<Fault, { kind: 'redirect' }>,
  { host, target }: FaultContext,
): string {
  switch (to) {
    case 'home':
      return `http://${host}/`;
    case 'trailing-slash':
      return `http://${host}${target.replace(/(?=\?|$)/, '/')}`;
    case 'https':
      return `https://${host.replace(/:\d+$/, '')}:${port}${target}`;
    case 'origin':
      return origin + target;
  }
}

function retryHeaders({ retryAfter, form }: RetryAfter, now: number): Record<string, string> {
  if (retryAfter === undefined || retryAfter === null) return {};
  // A date has no fractions. Round up, so that the client doesn't retry too early.
  const date = new Date(Math.ceil(now / 1000 + retryAfter) * 1000).toUTCString();
  return { 'Retry-After': form === 'date' ? date : String(retryAfter) };
}
