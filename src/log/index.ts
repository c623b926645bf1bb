import { pino, stdTimeFunctions } from 'pino';
import { isColorSupported, prettyFactory } from 'pino-pretty';
import type { Log, LogFields } from '../domain/log.js';
import type { Secret } from '../domain/secret.js';
import { createMask, escapeUnseen, LineValues, UNREADABLE } from './line-values.js';

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

export interface OpenLog extends Log {
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
  // The last look at a whole line: whatever came into it, by whatever way.
  const write = (line: string): void => {
    const head = HEAD.exec(line)?.[0] ?? '';
    output.write(show(escapeUnseen(head + mask.line(line.slice(head.length).trimEnd()))));
  };
  const lines = pino(
    { level, base: null, timestamp: stdTimeFunctions.isoTime, formatters: { level: nameOf } },
    { write: (line) => quietly(() => write(line)) },
  );
  const stacks = level === 'debug' || level === 'trace';
  const newLine = () => new LineValues(mask, stacks, BYTES[format]);
  return {
    ...logOn(lines, { pid: process.pid }, newLine),
    flush: () => quietly(() => output.flush()),
  };
}

/** Level and time, which the log itself writes. */
const HEAD = /^\{"level":"[a-z]+","time":"[^"]+"/;

function nameOf(level: string): object {
  return { level };
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
  const out: [string, unknown][] = [];
  for (const name of Object.keys(fields)) {
    const own = OWN_NAMES.has(name) ? `${name}_` : name;
    try {
      out.push([own, fields[name]]);
    } catch {
      out.push([own, UNREADABLE]);
    }
  }
  return Object.fromEntries(out);
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
