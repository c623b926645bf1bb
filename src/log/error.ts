/**
 * What a log tells of an error, in order of importance. What other fields it has stays untold: they
 * may be whole requests.
 */
export function errorFacts(error: Error, withStack: boolean): Record<string, unknown> {
  // Nothing keeps a library from putting something else than text into them.
  const { name, message, code, stack, cause, errors } = error as unknown as Record<string, unknown>;
  return {
    type: typeof name === 'string' && name !== 'Error' ? name : error.constructor.name,
    message,
    // Named by a programmer, so no purchase code, and the first thing one looks for.
    code,
    stack: withStack && typeof stack === 'string' ? places(stack) : undefined,
    cause,
    errors,
  };
}

/** Only where it happened: the text before repeats the message. */
function places(stack: string): string[] {
  return stack
    .split('\n')
    .filter((line) => /^ +at /.test(line))
    .map((line) => line.trim());
}
