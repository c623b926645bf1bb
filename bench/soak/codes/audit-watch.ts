import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

const EVERY_MS = 250;

/** How far the audit in hand is, looked at four times a second. */
export class AuditWatch {
  readonly #client: Client;
  #total = 0;
  #pending = 0;
  #movedAt = performance.now();
  #ended = false;
  readonly #looking: Promise<void>;

  private constructor(client: Client) {
    this.#client = client;
    this.#looking = this.#look();
  }

  static async open(url: string): Promise<AuditWatch> {
    const client = new Client(url);
    await client.connect();
    return new AuditWatch(client);
  }

  /** Share of the codes that are settled, 0 to 1. */
  get share(): number {
    return this.#total === 0 ? 0 : 1 - this.#pending / this.#total;
  }

  /** For how long nothing was settled, milliseconds. */
  get stillMs(): number {
    return performance.now() - this.#movedAt;
  }

  /** Forgets for how long nothing was settled. */
  touch(): void {
    this.#movedAt = performance.now();
  }

  async #look(): Promise<void> {
    while (!this.#ended) {
      const { rows } = await this.#client.query<{ codes: number; pending: number }>(
        'SELECT codes, pending FROM mirror.audits ORDER BY audit_id DESC LIMIT 1',
      );
      const [audit] = rows;
      if (audit !== undefined && audit.pending !== this.#pending) this.touch();
      this.#total = audit?.codes ?? 0;
      this.#pending = audit?.pending ?? 0;
      await sleep(EVERY_MS);
    }
  }

  /** Calls of all audits, as the store counted them. */
  async apiCalls(): Promise<number> {
    const { rows } = await this.#client.query<{ calls: number }>(
      'SELECT coalesce(sum(api_calls), 0)::int AS calls FROM mirror.audits',
    );
    return rows[0]?.calls ?? 0;
  }

  async close(): Promise<void> {
    this.#ended = true;
    await this.#looking;
    await this.#client.end();
  }
}
