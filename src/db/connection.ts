import { callbackify } from 'node:util';
import { Client, type ClientConfig, type QueryResult, type QueryResultRow } from 'pg';
import { withPsqlModes } from '../domain/postgres-tls.js';

/**
 * The settings of every session. What this program sends and parses rests on them, and a server, a database or a role
 * may have others. They are statements, since connection poolers refuse startup options.
 */
const SESSION_SETTINGS = `
  SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres';
  SET client_encoding = 'UTF8'; SET bytea_output = 'hex'; SET extra_float_digits = 1;
  SET standard_conforming_strings = on; SET array_nulls = on; SET quote_all_identifiers = off;
  SET search_path = "$user", public; SET default_transaction_isolation = 'read committed';
  SET default_transaction_deferrable = off`;

/** The driver's client, as every connection of this program uses it: with the same settings everywhere. */
export class DbClient extends Client {
  /** @throws {Error} if a certificate file that the URL names can't be read */
  constructor(config?: string | ClientConfig) {
    const hidden = hideEnvironment();
    try {
      super(asPsql(config));
    } finally {
      Object.assign(process.env, hidden);
    }
    // A lost connection fails its statement. Without a listener its error would end the process, also if the server
    // ends the connection while it is being set up.
    this.on('error', () => undefined);
  }

  override connect(): Promise<Client>;
  override connect(done: (error: Error | null) => void): void;
  override connect(done?: (error: Error | null) => void): Promise<Client> | void {
    if (done === undefined) return this.#connect();
    callbackify(() => this.#connect())(done);
  }

  async #connect(): Promise<Client> {
    await super.connect();
    try {
      await this.query(SESSION_SETTINGS);
      return this;
    } catch (error) {
      void this.end().catch(() => undefined);
      throw error;
    }
  }
}

function asPsql(config: string | ClientConfig | undefined): string | ClientConfig | undefined {
  if (typeof config === 'string') return withPsqlModes(config);
  if (config?.connectionString === undefined) return config;
  return { ...config, connectionString: withPsqlModes(config.connectionString) };
}

/**
 * Takes PGOPTIONS, PGSSLMODE, PGPORT and so on out of the environment, where the driver looks for what a URL leaves out.
 * Passwords stay: PGPASSWORD and PGPASSFILE.
 * @returns the variables, to put them back
 */
function hideEnvironment(): Record<string, string> {
  const hidden: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (!/^PG(?!PASS)/.test(name) || value === undefined) continue;
    hidden[name] = value;
    delete process.env[name];
  }
  return hidden;
}

/** The row of a statement that always returns one. */
export function onlyRow<T extends QueryResultRow>({ rows, command }: QueryResult<T>): T {
  const [row] = rows;
  if (row === undefined) throw new Error(`the database returned no row for ${command}`);
  return row;
}
