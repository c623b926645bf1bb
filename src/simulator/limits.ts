export interface LimitOptions {
  /** Requests per window and client address, for all keys and operations together; 0 for no limit. */
  requestsPerMinute: number;
  /** Length of the window in milliseconds; default 60,000. */
  windowMs?: number;
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

  /** Counts a request. Returns the headers of its reply, and whether it exceeds the limit. */
  take(address: string): { headers: Record<string, string>; isExceeded: boolean } {
    const { requestsPerMinute: limit } = this.options;
    if (limit === 0) return { headers: {}, isExceeded: false };
    const window = this.#window(address);
    const isExceeded = window.used >= limit;
    if (!isExceeded) window.used++;
    const headers = {
      'X-RateLimit-Limit': String(limit),
      'X-RateLimit-Remaining': String(Math.max(0, limit - window.used)),
    };
    if (!isExceeded) return { headers, isExceeded };
    const wait = Math.max(1, Math.ceil((window.endsAt - this.now()) / 1000));
    const reset = String(Math.ceil(window.endsAt / 1000));
    return {
      headers: { ...headers, 'Retry-After': String(wait), 'X-RateLimit-Reset': reset },
      isExceeded,
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
