import { pino, stdTimeFunctions } from 'pino';
import { isColorSupported, prettyFactory } from 'pino-pretty';
import type { Log, LogFields } from '../domain/log.js';
import type { Secret } from '../domain/secret.js';
import { createMask, escapeInvisible, LineValues, UNREADABLE } from './line-values.js';

export interface LogOptions {
  /** Lines below this level are dropped. */
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  /** `json`: one object per line, for machines. `pretty`: one line of text, for people. */
  readonly format: 'json' | 'pretty';
  /** Masked in every line, in any spelling. */
  readonly secrets: readonly Secret[];
  /** Receives each line with its line end. Default: write to standard output. */
  readonly write?: (line: string) => void;
  /** Colours for `pretty`. Default: only if standard output supports them. */
  readonly colors?: boolean;
}

/** Maximum bytes of JSON for message and fields. With the rest, a line stays below 16 KiB. */
const MAX_BYTES = { json: 15 * 1024, pretty: 10 * 1024 } as const;
/** Maximum bytes buffered while standard output does not accept writes. Further lines are lost. */
const MAX_BUFFERED_BYTES = 1024 * 1024;
/** Names that the log itself writes. A field with one of these names gets a `_` appended. */
const OWN_NAMES: ReadonlySet<string> = new Set(['level', 'time', 'msg', 'pid']);
/** The level and time at the start of a line. They contain no text from outside. */
const HEAD = /^\{"level":"[a-z]+","time":"[^"]+"/;

/**
 * Creates the log of a long-running process. Each line has `level`, `time` (ISO 8601), `pid`, the fields
 * and `msg`, in at most 16 KiB. Logging never throws. No line contains a secret, a purchase code or a
 * terminal control character.
 */
export function createLog({ level, format, secrets, write, colors }: LogOptions): Log {
  const mask = createMask(secrets);
  const render = format === 'pretty' ? createPretty(colors) : (json: string) => `${json}\n`;
  const output = write ?? openStdout();
  const writeLine = (line: string): void => {
    const head = HEAD.exec(line)?.[0] ?? '';
    try {
      // The whole line is masked once more, in case a value got past LineValues.
      output(render(escapeInvisible(head + mask.line(line.slice(head.length).trimEnd()))));
    } catch {
      // There is nowhere to report it, and the work must not fail because of the log.
    }
  };
  const logger = pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (name) => ({ level: name }) },
    },
    { write: writeLine },
  );
  const withStacks = level === 'debug' || level === 'trace';
  const newLine = () => new LineValues(mask, withStacks, MAX_BYTES[format]);
  return logOn(logger, { pid: process.pid }, newLine);
}

/** Writes to standard output synchronously, so that no line is lost when the process exits. */
function openStdout(): (line: string) => void {
  const destination = pino.destination({ fd: 1, sync: true, maxLength: MAX_BUFFERED_BYTES });
  // The process must survive when the reader of its log goes away.
  destination.on('error', () => undefined);
  return (line) => void destination.write(line);
}

/** @param fields added to every line */
function logOn(logger: pino.Logger, fields: LogFields, newLine: () => LineValues): Log {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, own: LogFields = {}): void => {
      if (!logger.isLevelEnabled(level)) return;
      const values = newLine();
      // The message goes first, so that fields can't use up its bytes.
      const text = values.text(message);
      logger[level](values.members({ ...fields, ...copyFields(own) }), text);
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => logOn(logger, { ...fields, ...copyFields(more) }, newLine),
  };
}

/** Copies the current values of the fields and renames those in OWN_NAMES. Getters may throw. */
function copyFields(fields: LogFields): LogFields {
  const out: [string, unknown][] = [];
  for (const name of Object.keys(fields)) {
    const shownName = OWN_NAMES.has(name) ? `${name}_` : name;
    try {
      out.push([shownName, fields[name]]);
    } catch {
      out.push([shownName, UNREADABLE]);
    }
  }
  return Object.fromEntries(out);
}

/** Converts a line of JSON to text for people: time, level, message, then the fields as `name=value`. */
function createPretty(colors: boolean = isColorSupported): (json: string) => string {
  return prettyFactory({
    colorize: colors,
    singleLine: true,
    translateTime: 'SYS:yyyy-mm-dd HH:MM:ss',
    // The fields are formatted below: pino-pretty would print some, such as stack, on extra lines.
    include: 'level,time',
    messageFormat(line, messageKey, _level, extras) {
      const shown = Object.entries(line)
        .filter(([name]) => !OWN_NAMES.has(name))
        .map(([name, value]) => `${plainOrJson(name)}=${plainOrJson(value)}`);
      const text = escapeInvisible(String(line[messageKey]));
      return shown.length === 0 ? text : `${text} ${extras.colors.gray(shown.join(' '))}`;
    },
  });
}

/** Returns a single unambiguous word unchanged, and anything else as JSON. */
function plainOrJson(value: unknown): string {
  return typeof value === 'string' && /^[\p{L}\p{N}\p{P}]+$/u.test(value) && !/["=]/.test(value)
    ? value
    : escapeInvisible(JSON.stringify(value));
}
