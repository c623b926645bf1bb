import type { IncomingHttpHeaders } from 'node:http';
import type { Operation } from './types.js';

/** A request as the server saw it, without its key. Filled in while it is answered. */
export interface LogEntry {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Null when the path is none of the four. */
  operation: Operation | null;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly host: string;
  readonly userAgent: string;
  readonly accept: string;
  /** Names in lower case; the header that carries the key is masked. */
  readonly headers: IncomingHttpHeaders;
  parameterPlacement: 'query' | 'form' | 'json' | 'header' | 'mixed' | 'none';
  keySeenIn: 'query' | 'form' | 'json' | 'header' | null;
  /** Which of the sellers the key belongs to, counted from 0; -1 for none of them. */
  keyIndex: number;
  sellerName: string | null;
  parameters: Record<string, string>;
  /** 0 until an answer begins, and for ever when the connection is reset before one. */
  status: number;
  /** Bytes of the body handed to the connection. */
  bytesSent: number;
  /** The whole answer was handed over. */
  finished: boolean;
}

const KEPT = 100_000;
const SLACK = 10_000;

/** Appends to the log; forgets the oldest entries beyond the last 100,000 (with some slack). */
export function record(log: LogEntry[], entry: LogEntry): void {
  log.push(entry);
  if (log.length >= KEPT + SLACK) log.splice(0, log.length - KEPT);
}
