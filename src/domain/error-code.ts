/** The code of an error, such as `ENOENT`; of an AggregateError, its first error's code. Empty if there is none. */
export function errorCode(error: unknown): string {
  const { code, errors } = Object(error) as { code?: unknown; errors?: readonly unknown[] };
  if (typeof code === 'string') return code;
  return error instanceof AggregateError ? errorCode(errors?.[0]) : '';
}
