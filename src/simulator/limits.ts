export interface LimitOptions {
  /** Requests per window and client address, for all keys and operations together; 0 for no limit. */
  requestsPerMinute: number;
  /** Length of the window in milliseconds; default 60,000. */
  windowMs?: number;
  /** `Retry-After` as seconds (default) or as an HTTP date (servers: limits). */
  retryAfter?: 'seconds' | 'date';
  /** Body of a 429; default `json`. */
  body?: 'json' | 'html';
}

interface Window {
  readonly endsAt: number;
  used: number;
}

/** The server's rate limit. Each client address has a window that opens with its first request (servers: limits). */
export class Limits {
  readonly #windows = new Map<string, Window>();

  constructor(
    private options: LimitOptions,
    private readonly now: () => number,
  ) {}

  /** Changes the limit. Open windows stay open. */
  set(options: Partial<LimitOptions>): void {
    this.options = { ...this.options, ...options };
  }

  /** Uses up `count` requests, like another client behind the same address. */
  spend(count: number): void {
    this.#window('127.0.0.1').used += count;
  }

  reset(): void {
    this.#windows.clear();
  }

  /** Counts a request. Returns the headers of its reply, and the body of a 429 if it exceeds the limit. */
  take(address: string): { headers: Record<string, string>; limited: 'json' | 'html' | null } {
    const { requestsPerMinute: limit, body = 'json' } = this.options;
    if (limit === 0) return { headers: {}, limited: null };
    const window = this.#window(address);
    const limited = window.used >= limit;
    if (!limited) window.used++;
    const headers = {
      'X-RateLimit-Limit': String(limit),
      'X-RateLimit-Remaining': String(Math.max(0, limit - window.used)),
    };
    if (!limited) return { headers, limited: null };
    return { headers: { ...headers, ...this.#retryHeaders(window) }, limited: body };
  }

  #retryHeaders(window: Window): Record<string, string> {
    const wait = Math.max(1, Math.ceil((window.endsAt - this.now()) / 1000));
    return {
      'Retry-After': retryAfter(wait, this.options.retryAfter ?? 'seconds', this.now()),
      'X-RateLimit-Reset': String(Math.ceil(window.endsAt / 1000)),
    };
  }

  #window(address: string): Window {
    const now = this.now();
    const open = this.#windows.get(address);
    if (open !== undefined && open.endsAt > now) return open;
    const fresh = { endsAt: now + (this.options.windowMs ?? 60_000), used: 0 };
    this.#windows.set(address, fresh);
    return fresh;
  }
}

export function retryAfter(seconds: number, form: 'seconds' | 'date', now: number): string {
  if (form === 'seconds') return String(seconds);
  // A date has no fractions. Round up, so that the client doesn't retry too early.
  return new Date(Math.ceil(now / 1000 + seconds) * 1000).toUTCString();
}
