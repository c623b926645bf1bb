import { pino, stdTimeFunctions } from 'pino';
import { isColorSupported, prettyFactory } from 'pino-pretty';
import type { Log, LogFields } from '../domain/log.js';
import type { Secret } from '../domain/secret.js';
import { LineValues, UNREADABLE } from './line-values.js';
import { createMask, escapeUnseen, type Mask } from './mask.js';

export interface LogOptions {
  /** Lines below it are not written. */
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
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
/** Bytes that wait while the disk behind standard output is full; lines beyond are lost. */
const MOST_WAITING = 1024 * 1024;
/** What a line has of itself; fields of these names get another. */
const OWN_NAMES: ReadonlySet<string> = new Set(['level', 'time', 'msg', 'pid']);

/**
 * The log of a long-running process: lines of `level`, `time` (ISO 8601), `pid`, the fields and
 * `msg`, of 16 KiB at most. Calling it never fails, and no line shows a secret, a purchase code or
 * a character that acts on terminals.
 */
export function createLog(options: LogOptions): OpenLog {
  const { level, format } = options;
  const mask = createMask(options.secrets);
  const show = format === 'pretty' ? createPretty(options.colors) : (json: string) => `${json}\n`;
  const output = options.write === undefined ? openStdout() : { write: options.write, flush() {} };
  const lines = pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label: string) => ({ level: label }) },
    },
    {
      write: (line) =>
        quietly(() => output.write(show(escapeUnseen(maskLine(line.trimEnd(), mask))))),
    },
  );
  const bounds = { mask, stacks: level === 'debug' || level === 'trace', bytes: BYTES[format] };
  const log = logOn(lines, { pid: process.pid }, () => new LineValues(bounds));
  return { ...log, flush: () => quietly(() => output.flush()) };
}

/** Whoever logs has more important things to do than to mind the log. */
function quietly(write: () => void): void {
  try {
    write();
  } catch {
    // There is no other place to tell it.
  }
}

/** Standard output, written before the call returns, so that no line is lost when the process ends. */
function openStdout(): { write: (line: string) => void; flush: () => void } {
  const destination = pino.destination({ fd: 1, sync: true, maxLength: MOST_WAITING });
  // A log that nobody reads any more must not end what it tells of.
  destination.on('error', () => undefined);
  return {
    write: (line) => void destination.write(line),
    flush: () => destination.flushSync(),
  };
}

/** @param fields of every line */
function logOn(lines: pino.Logger, fields: LogFields, newLine: () => LineValues): Log {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, own: LogFields = {}): void => {
      if (!lines.isLevelEnabled(level)) return;
      const values = newLine();
      // The message first: it has the room it needs.
      const text = values.text(message);
      lines[level](values.members({ ...fields, ...copied(own) }), text);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => logOn(lines, { ...fields, ...copied(more) }, newLine),
  };
}

/** The fields as they are now, under names that a line does not use itself. Getters may throw. */
function copied(fields: LogFields): LogFields {
  const read = (name: string): unknown => {
    try {
      return fields[name];
    } catch {
      return UNREADABLE;
    }
  };
  const names = Object.keys(fields);
  return Object.fromEntries(
    names.map((name) => [OWN_NAMES.has(name) ? `${name}_` : name, read(name)]),
  );
}

/** Level and time, which the log itself writes. */
const HEAD = /^\{"level":"[a-z]+","time":"[^"]+"/;

/** The last look at a whole line: whatever came into it, by whatever way. */
function maskLine(line: string, mask: Mask): string {
  const head = HEAD.exec(line)?.[0] ?? '';
  return head + mask.line(line.slice(head.length));
}

/** Turns a line of JSON into one for people: time, level, message, and the fields as `name=value`. */
function createPretty(colors: boolean = isColorSupported): (json: string) => string {
  return prettyFactory({
    colorize: colors,
    singleLine: true,
    translateTime: 'SYS:yyyy-mm-dd HH:MM:ss',
    // The fields are written below: the library would give some, such as stack and name, lines and
    // places of their own.
    include: 'level,time',
    messageFormat(line, messageKey, _level, extras) {
      const shown = Object.entries(line)
        .filter(([name]) => !OWN_NAMES.has(name))
        .map(([name, value]) => `${word(name)}=${word(value)}`);
      const text = escapeUnseen(String(line[messageKey]));
      return shown.length === 0 ? text : `${text} ${extras.colors.gray(shown.join(' '))}`;
    },
  });
}

/** As it is when it can be told apart, as JSON otherwise. */
function word(value: unknown): string {
  return typeof value === 'string' && /^[\p{L}\p{N}\p{P}]+$/u.test(value) && !/["=]/.test(value)
    ? value
    : escapeUnseen(JSON.stringify(value));
}
