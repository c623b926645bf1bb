import { pino, stdTimeFunctions } from 'pino';
import { isColorSupported, prettyFactory } from 'pino-pretty';
import type { Log, LogFields } from '../domain/log.js';
import { Redactor } from '../domain/redact.js';
import { MASK, maskCode, maskLikelyCodes, type Secret } from '../domain/secret.js';

export interface LogOptions {
  /** Lines below this level are dropped. */
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  /** `json`: one object per line, for machines. `pretty`: one line of text, for people. */
  readonly format: 'json' | 'pretty';
  /** Masked in every line. The list may grow. */
  readonly secrets: readonly Secret[];
  /** Receives each line with its line end. Default: write to standard output. */
  readonly write?: (line: string) => void;
  /** Colours for `pretty`. Default: only if standard output supports them. */
  readonly colors?: boolean;
}

/** Bytes of a line. Longer ones are cut: they would push others out of a terminal or a log collector. */
const MAX_BYTES = 16 * 1024;
/** Characters of the message of a line that is too long. */
const MAX_MESSAGE = 2_000;
/** Bytes buffered while standard output does not accept writes. Further lines are lost. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

const CODE_FIELDS = ['code', 'codes', 'purchaseCode', 'purchase_code'];
const SECRET_FIELDS = [
  'apiKey',
  'api_key',
  'password',
  'secret',
  'token',
  'authorization',
  'cookie',
];

/** User name and password in a URL. */
const LOGIN = /([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@]{1,1000}@/gi;
/** The level and time at the start of a line. They contain no text from outside. */
const HEAD = /^\{"level":"[a-z]+","time":"[^"]+"/;
const JSON_TEXT = /"(?:[^"\\]|\\.)*"/g;
/** Control, format and separator characters. They can end a line, drive a terminal or reverse text. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Creates the log of a long-running process. Each line has `level`, `time` (ISO 8601), `pid`, the fields
 * and `msg`. Logging never throws. No line contains a secret, a purchase code or a terminal control
 * character.
 */
export function createLog({ level, format, secrets, write, colors }: LogOptions): Log {
  const mask = maskOf(secrets);
  const render = format === 'pretty' ? createPretty(colors) : (json: string) => `${json}\n`;
  const output = write ?? openStdout();
  const withStack = level === 'debug' || level === 'trace';
  const logger = pino(
    {
      level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (name) => ({ level: name }) },
      serializers: { error: (error: unknown) => errorMembers(error, withStack) },
      redact: {
        paths: [...CODE_FIELDS, ...SECRET_FIELDS],
        censor: (value, [name = '']) =>
          CODE_FIELDS.includes(name) ? maskCode(String(value)) : MASK,
      },
    },
    {
      write(line) {
        const head = HEAD.exec(line)?.[0] ?? '';
        // Texts only: a number that looks like a key is still valid JSON.
        const rest = line.slice(head.length).trimEnd().replaceAll(JSON_TEXT, mask);
        output(render(fitting(escapeInvisible(head + rest))));
      },
    },
  );
  return logOn(logger, { pid: process.pid });
}

/** Masks the given secrets, logins in URLs, and anything that looks like a purchase code. */
function maskOf(secrets: readonly Secret[]): (text: string) => string {
  let redactor = new Redactor(secrets);
  let known = secrets.length;
  return (text) => {
    if (secrets.length !== known) redactor = new Redactor(secrets);
    known = secrets.length;
    return maskLikelyCodes(redactor.text(text).replaceAll(LOGIN, '$1…@'));
  };
}

/** Cuts a line that is too long to its level, time and the beginning of its message. */
function fitting(line: string): string {
  if (Buffer.byteLength(line) <= MAX_BYTES) return line;
  const { level, time, pid, msg } = JSON.parse(line) as Record<string, unknown>;
  const text = String(msg).slice(0, MAX_MESSAGE).toWellFormed();
  return escapeInvisible(JSON.stringify({ level, time, pid, msg: `${text}…`, isCut: true }));
}

/** Writes to standard output synchronously, so that no line is lost when the process exits. */
function openStdout(): (line: string) => void {
  const destination = pino.destination({ fd: 1, sync: true, maxLength: MAX_BUFFERED_BYTES });
  // The process must survive when the reader of its log goes away.
  destination.on('error', () => undefined);
  return (line) => void destination.write(line);
}

/** @param fields added to every line */
function logOn(logger: pino.Logger, fields: LogFields): Log {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, own: LogFields = {}): void => {
      try {
        logger[level]({ ...fields, ...own }, message);
      } catch {
        // There is nowhere to report it, and the work must not fail because of the log.
      }
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (more) => logOn(logger, { ...fields, ...more }),
  };
}

/** Causes and inner errors are shown up to this depth. */
const MAX_ERROR_DEPTH = 4;

/** The members of an error to log. Others may hold whole requests. */
function errorMembers(error: unknown, withStack: boolean, depth = 0): unknown {
  if (!(error instanceof Error) || depth > MAX_ERROR_DEPTH) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  const inner: unknown[] = error instanceof AggregateError ? error.errors : [];
  const members = (one: unknown): unknown => errorMembers(one, withStack, depth + 1);
  return {
    type: error.name === 'Error' ? error.constructor.name : error.name,
    message: error.message,
    code,
    // The first lines of a stack repeat the message.
    stack: withStack ? error.stack?.match(/(?<=^ +)at .*/gm) : undefined,
    cause: error.cause === undefined ? undefined : members(error.cause),
    errors: inner.length === 0 ? undefined : inner.map(members),
  };
}

/**
 * Replaces invisible characters by JSON escapes, so that text from outside can't forge a log line or
 * control a terminal. JSON keeps its meaning.
 */
function escapeInvisible(text: string): string {
  return text.replaceAll(INVISIBLE, (character) => {
    if (character === '\n') return String.raw`\n`;
    const units = character.split('').map((unit) => unit.charCodeAt(0));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
  });
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
      const { level: _l, time: _t, pid: _p, [messageKey]: message, ...fields } = line;
      const shown = Object.entries(fields).map(
        ([name, value]) => `${plainOrJson(name)}=${plainOrJson(value)}`,
      );
      const text = escapeInvisible(String(message));
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
