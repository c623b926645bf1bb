import { pino, stdTimeFunctions } from 'pino';
import type { Log, LogFields } from '../domain/log.js';
import type { Secret } from '../domain/secret.js';
import { Bounded } from './bounded.js';
import { escapeUnseen } from './escape.js';
import { copied } from './fields.js';
import { createMask, type Mask } from './mask.js';
import { createPretty } from './pretty.js';
import { openStdout } from './stdout.js';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

export interface LogOptions {
  /** Lines below it are not written. */
  readonly level: LogLevel;
  /** `json`: one object a line, for machines. `pretty`: one line of text, for people. */
  readonly format: 'json' | 'pretty';
  /** What no line may show, in any spelling. */
  readonly secrets: readonly Secret[];
  /** Gets each line with its line end; standard output when not given. */
  readonly write?: (line: string) => void;
  /** Colours in `pretty`; when not given, where standard output has them. */
  readonly colors?: boolean;
}

/** A log that may hold lines back for a moment. */
export interface OpenLog extends Log {
  /** Writes what is held back. */
  flush(): void;
}

/** Bytes of JSON that message and fields may take; what is around them stays below 16 KiB. */
const BYTES = { json: 15 * 1024, pretty: 10 * 1024 } as const;

/**
 * The log of a long-running process: lines of `level`, `time` (ISO 8601), `pid`, the fields and
 * `msg`, of 16 KiB at most. Calling it never fails, and no line shows a secret, a purchase code or
 * a character that acts on terminals.
 */
export function createLog(options: LogOptions): OpenLog {
  const { level, format } = options;
  const mask = createMask(options.secrets);
  const show = format === 'pretty' ? createPretty(options.colors) : withLineEnd;
  const output = options.write === undefined ? openStdout() : { write: options.write, flush() {} };
  const lines = openPino(level, (line) =>
    quietly(() => output.write(show(escapeUnseen(maskLine(line.trimEnd(), mask))))),
  );
  const bounds = { mask, stacks: level === 'debug' || level === 'trace', bytes: BYTES[format] };
  const log = new PinoLog(lines, { pid: process.pid }, () => new Bounded(bounds));
  return Object.assign(log, { flush: () => quietly(() => output.flush()) });
}

/** Whoever logs has more important things to do than to mind the log. */
function quietly(write: () => void): void {
  try {
    write();
  } catch {
    // There is no other place to tell it.
  }
}

function openPino(level: LogLevel, write: (line: string) => void): pino.Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label: string) => ({ level: label }) },
      // What comes has bounds already.
      depthLimit: 100,
      edgeLimit: 1_000,
    },
    { write },
  );
}

type Word = 'debug' | 'info' | 'warn' | 'error';

class PinoLog implements Log {
  constructor(
    private readonly lines: pino.Logger,
    private readonly fields: LogFields,
    private readonly bounded: () => Bounded,
  ) {}

  debug(message: string, fields?: LogFields): void {
    this.#write('debug', message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#write('info', message, fields);
  }

  warn(message: string, fields?: LogFields): void {
    this.#write('warn', message, fields);
  }

  error(message: string, fields?: LogFields): void {
    this.#write('error', message, fields);
  }

  child(fields: LogFields): Log {
    return new PinoLog(this.lines, { ...this.fields, ...copied(fields) }, this.bounded);
  }

  #write(level: Word, message: string, fields: LogFields = {}): void {
    if (!this.lines.isLevelEnabled(level)) return;
    const bounded = this.bounded();
    // The message first: it has the room it needs.
    const text = bounded.text(message);
    this.lines[level](bounded.members({ ...this.fields, ...copied(fields) }), text);
  }
}

/** Level and time, which the log itself writes. */
const HEAD = /^\{"level":"[a-z]+","time":"[^"]+"/;

/** The last look at a whole line: whatever came into it, by whatever way. */
function maskLine(line: string, mask: Mask): string {
  const head = HEAD.exec(line)?.[0] ?? '';
  return head + mask.line(line.slice(head.length));
}

function withLineEnd(json: string): string {
  return `${json}\n`;
}
