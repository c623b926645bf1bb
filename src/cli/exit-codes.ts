export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  /** A run holds removals, which wait for a person. */
  held: 3,
  /** Finished, but some codes are neither proven valid nor proven invalid, or no line has a code. */
  unproven: 4,
  /** Finished, and a condition of `--fail-on` holds for some codes. */
  refused: 5,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
