import { createLog, type LogOptions, type OpenLog } from '../../src/log/index.js';
import { Secret } from '../../src/domain/secret.js';

/** A log whose lines are kept. */
export function useLog(
  options: Partial<Omit<LogOptions, 'secrets'>> & { secrets?: string[] } = {},
): {
  log: OpenLog;
  lines: string[];
  /** The last line, read. */
  last: () => Record<string, unknown>;
} {
  const lines: string[] = [];
  const log = createLog({
    level: 'info',
    format: 'json',
    colors: false,
    write: (line) => lines.push(line),
    ...options,
    secrets: (options.secrets ?? []).map((text) => new Secret(text)),
  });
  return {
    log,
    lines,
    last: () => JSON.parse(lines.at(-1) ?? 'null') as Record<string, unknown>,
  };
}
