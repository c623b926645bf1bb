import { isColorSupported, prettyFactory } from 'pino-pretty';
import { escapeUnseen } from './escape.js';
import { OWN_NAMES } from './fields.js';

/**
 * Turns a line of JSON into one for people: time, level, message, and the fields as `name=value`.
 * @param colors when not given, where standard output has them
 */
export function createPretty(colors: boolean = isColorSupported): (json: string) => string {
  return prettyFactory({
    colorize: colors,
    singleLine: true,
    translateTime: 'SYS:yyyy-mm-dd HH:MM:ss',
    // The rest is written below: the library would give fields such as stack and name lines and
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
