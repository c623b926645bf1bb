import type { Client } from 'pg';
import { from as copyFrom, type CopyStreamQuery } from 'pg-copy-streams';
import { quoted, tablesOf, targetOf, type TableShape } from './contents.js';
import { BackupError } from './error.js';
import type { BackupManifest, BackupTable } from './manifest.js';

/** Fills the tables of a store with the rows of a backup, one table after the other. */
export class Filler {
  readonly #client: Client;
  readonly #waiting: BackupTable[];
  #copying: { readonly table: BackupTable; readonly copy: TextCopy } | null = null;

  private constructor(client: Client, tables: readonly BackupTable[]) {
    this.#client = client;
    this.#waiting = [...tables];
  }

  /** @throws {BackupError} when the tables of the store are not those of the backup */
  static async begin(client: Client, { tables }: BackupManifest): Promise<Filler> {
    const shapes = new Map((await tablesOf(client)).map((shape) => [shape.name, shape]));
    for (const table of tables) assertFits(table, shapes.get(table.name));
    // What triggers are for was done when the rows were first written.
    for (const { name } of tables) await triggers(client, name, 'DISABLE');
    return new Filler(client, tables);
  }

  /** Takes rows; a table that was begun before is ended by those of the next. */
  async take(name: string, rows: Buffer): Promise<void> {
    if (this.#copying?.table.name !== name) await this.#open(name);
    await this.#copying?.copy.write(rows);
  }

  async finish(): Promise<void> {
    await this.#close();
    for (const { name, rows } of this.#waiting) {
      if (rows > 0) throw BackupError.damaged(`the rows of ${name} are missing`);
    }
  }

  /** Has triggers do their work from now on. */
  async enableTriggers({ tables }: BackupManifest): Promise<void> {
    for (const { name } of tables) await triggers(this.#client, name, 'ENABLE');
  }

  /** Those without rows are passed over. */
  async #open(name: string): Promise<void> {
    await this.#close();
    for (;;) {
      const table = this.#waiting.shift();
      if (table === undefined) throw BackupError.damaged('its tables are not in their order');
      if (table.name !== name) continue;
      this.#copying = { table, copy: new TextCopy(this.#client, table) };
      return;
    }
  }

  async #close(): Promise<void> {
    if (this.#copying === null) return;
    const { table, copy } = this.#copying;
    this.#copying = null;
    const rows = await copy.end();
    if (rows !== table.rows) {
      throw BackupError.damaged(`${rows} of ${table.rows} rows arrived in ${table.name}`);
    }
  }
}

function assertFits(table: BackupTable, shape: TableShape | undefined): void {
  const columns = new Map(shape?.columns.map(({ name, type }) => [name, type]));
  const fits =
    shape?.columns.length === table.columns.length &&
    table.columns.every(({ name, type }) => columns.get(name) === type);
  if (fits) return;
  throw new BackupError(
    `the table ${table.name} of the backup is not as its migrations make it`,
    'Nothing was changed. Restore it with the program that made it.',
  );
}

async function triggers(client: Client, table: string, what: 'DISABLE' | 'ENABLE'): Promise<void> {
  await client.query(`ALTER TABLE mirror.${quoted(table)} ${what} TRIGGER USER`);
}

/** Rows on their way into a table, as text. */
class TextCopy {
  readonly #stream: CopyStreamQuery;
  readonly #failed: Promise<never>;

  constructor(client: Client, table: TableShape) {
    this.#stream = client.query(copyFrom(`COPY ${targetOf(table)} FROM STDIN`));
    this.#failed = new Promise((_, reject) => this.#stream.on('error', reject));
    // Who writes or ends is told.
    this.#failed.catch(() => undefined);
  }

  async write(rows: Buffer): Promise<void> {
    const sent = new Promise<void>((resolve) => this.#stream.write(rows, () => resolve()));
    await Promise.race([sent, this.#failed]);
  }

  /** Waits until the server has taken in all rows, and says how many. */
  async end(): Promise<number> {
    const finished = new Promise<void>((resolve) => this.#stream.once('finish', resolve));
    this.#stream.end();
    await Promise.race([finished, this.#failed]);
    return this.#stream.rowCount;
  }
}
