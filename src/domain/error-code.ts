/** The code of an error of Node or a driver, such as `ENOENT`; of the first one inside an AggregateError. Empty: none. */
export function errorCode(error: unknown): string {
  const { code, errors } = Object(error) as { code?: unknown; errors?: readonly unknown[] };
  if (typeof code === 'string') return code;
  return error instanceof AggregateError ? errorCode(errors?.[0]) : '';
}
