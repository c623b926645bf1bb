/** One thing looked at. */
export interface Check {
  /** Seller it is about; null for the machine and the store. */
  readonly seller: string | null;
  readonly result: 'ok' | 'warning' | 'failed';
  readonly text: string;
  /** What to do about it; null for what is in order. */
  readonly remedy: string | null;
}

/** Makes checks about one seller, or about none. */
export class Checks {
  constructor(readonly seller: string | null) {}

  ok(text: string): Check {
    return { seller: this.seller, result: 'ok', text, remedy: null };
  }

  warning(text: string, remedy: string): Check {
    return { seller: this.seller, result: 'warning', text, remedy };
  }

  failed(text: string, remedy: string | null): Check {
    return { seller: this.seller, result: 'failed', text, remedy };
  }
}
