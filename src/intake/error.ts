/** What keeps a list from being read or a result from being written, with what to do about it. */
export class IntakeError extends Error {
  override readonly name = 'IntakeError';

  /** @param remedy one sentence: what to do about it */
  constructor(
    message: string,
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The code of an error of Node's, such as `ENOENT`; empty when it has none. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}
