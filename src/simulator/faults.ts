import type { Operation } from './types.js';
import type { Language } from './words.js';

/** `Retry-After` of a fault: seconds, written as such or as an HTTP date; null or left out: none. */
export interface ComeBack {
  readonly retryAfter?: number | null;
  readonly form?: 'seconds' | 'date';
}

/** What can go wrong with a reply. Sizes count the bytes of the body before compression. */
export type Fault =
  | ({ readonly kind: 'rate-limited'; readonly body?: 'json' | 'html' } & ComeBack)
  /** 5xx as Laravel sends it in debug mode; with `echo`, it shows the request's URL and input, key and all. */
  | {
      readonly kind: 'server-error';
      readonly status?: number;
      readonly body?: 'json' | 'html';
      readonly echo?: boolean;
    }
  | ({ readonly kind: 'maintenance'; readonly body?: 'json' | 'html' } & ComeBack)
  | { readonly kind: 'maintenance-redirect'; readonly status?: number }
  /** The API is switched off or the site is in demo mode: 404 without the envelope. */
  | { readonly kind: 'switched-off'; readonly body: 'json' | 'html' }
  | { readonly kind: 'challenge'; readonly status?: 403 | 429 | 503 }
  | { readonly kind: 'html'; readonly status?: number }
  | { readonly kind: 'empty'; readonly status?: number }
  /** A sound JSON document that is no envelope. */
  | { readonly kind: 'wrong-type'; readonly json: 'array' | 'string' | 'null' | 'number' }
  /** Any reply at all. */
  | {
      readonly kind: 'reply';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body: string;
    }
  | ({ readonly kind: 'redirect'; readonly status?: 301 | 302 | 303 | 307 | 308 } & RedirectTarget)
  /** The key counts as unknown. */
  | { readonly kind: 'key-refused' }
  | { readonly kind: 'translated'; readonly language: Language }
  /** Text before the body; the names stand for what PHP servers send. */
  | {
      readonly kind: 'prefix';
      readonly text: 'bom' | 'whitespace' | 'php-warnings' | { readonly raw: string };
    }
  | ({
      readonly kind: 'truncate';
      /**
       * `destroy`: chunked, the connection ends without the last chunk; `clean`: a proper end of a
       * body that is too short; `short`: fewer bytes than Content-Length promises.
       */
      readonly how: 'destroy' | 'clean' | 'short';
    } & CutPoint)
  | { readonly kind: 'slow'; readonly chunkBytes: number; readonly pauseMs: number }
  | { readonly kind: 'stall'; readonly ms: number }
  /** The connection is reset: before the headers, or after so many bytes of the body. */
  | { readonly kind: 'reset'; readonly afterBytes?: number }
  /** Compressed, whatever the client accepts. */
  | { readonly kind: 'encoding'; readonly encoding: 'gzip' | 'br' | 'deflate' };

/** After how many bytes, or after which part (0 to 1) of the whole. */
export type CutPoint = { readonly bytes: number } | { readonly fraction: number };

export type RedirectTarget =
  | { readonly to: 'www' | 'apex' | 'trailing-slash' | 'home' }
  | { readonly to: 'https' | 'http'; readonly port?: number }
  /** Same path and query on another origin: the key goes along unless the client knows better. */
  | { readonly to: 'origin'; readonly origin: string }
  | { readonly to: 'url'; readonly url: string };

type Target = Operation | 'any';

interface Planned {
  readonly target: Target;
  readonly fault: Fault;
  times: number;
}

/** Faults to come. A request takes the oldest `next` that fits it, and every `always`. */
export class Faults {
  #next: Planned[] = [];
  #always: Planned[] = [];

  /** The next `times` requests of the operation meet this fault. */
  next(target: Target, fault: Fault, times = 1): void {
    this.#next.push({ target, fault, times });
  }

  /** Every request of the operation meets this fault. */
  always(target: Target, fault: Fault): void {
    this.#always.push({ target, fault, times: Number.POSITIVE_INFINITY });
  }

  /** All is well from now on. */
  clear(): void {
    this.#next = [];
    this.#always = [];
  }

  /** The faults that one request meets; uses them up. */
  take(operation: Operation): Fault[] {
    const fits = ({ target }: Planned): boolean => target === 'any' || target === operation;
    const faults = this.#always.filter(fits).map(({ fault }) => fault);
    const first = this.#next.find(fits);
    if (first === undefined) return faults;
    first.times--;
    if (first.times <= 0) this.#next = this.#next.filter((planned) => planned !== first);
    return [...faults, first.fault];
  }
}
