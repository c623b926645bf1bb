/*
 * JSON for scripts and programs, as docs/reporting.md describes it: members have the names of the views' columns.
 */

/** Members whose content keeps its own names. */
const AS_RECEIVED = new Set(['extra', 'layout', 'raw', 'tolerated']);

/**
 * Renames members to snake case like columns, at every depth: `runId` becomes `run_id`.
 * @param remedy converts the texts of members `remedy`
 */
export function withColumnNames(
  value: unknown,
  remedy: (text: string) => string = (text) => text,
): unknown {
  if (Array.isArray(value)) return value.map((one) => withColumnNames(one, remedy));
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      AS_RECEIVED.has(name)
        ? member
        : name === 'remedy' && typeof member === 'string'
          ? remedy(member)
          : withColumnNames(member, remedy),
    ]),
  );
}

/**
 * Returns JSON in which integers beyond 2^53 are text, dates are ISO 8601, and bytes are hexadecimal as in PostgreSQL.
 * @param indent spaces of each level; 0: one line
 */
export function jsonText(value: unknown, indent = 0): string {
  return JSON.stringify(value, replace, indent) ?? 'null';
}

function replace(this: unknown, key: string, value: unknown): unknown {
  // `value` is what a Buffer's toJSON() returned. The original still has the bytes.
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Uint8Array) return `\\x${Buffer.from(original).toString('hex')}`;
  if (typeof value === 'bigint') {
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  }
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value;
}
