import type { Roles } from '../app/service.js';
import { EXIT } from './exit-codes.js';
import { complain } from './execute.js';

/** Something that runs until it is told to stop. */
export interface Serving {
  /** Ends in order, within the time the settings give it. */
  stop(): Promise<void>;
}

/**
 * Runs a service until SIGINT or SIGTERM, then stops it in order and ends with 0. A second one ends
 * it at once with 130: what it was doing is done again by the next worker.
 * @param start must give up when the signal says so
 */
export async function executeService(
  start: (signal: AbortSignal) => Promise<Serving>,
): Promise<void> {
  const interruption = new AbortController();
  const told = new Promise<void>((resolve) => {
    const onSignal = (): void => {
      if (interruption.signal.aborted) process.exit(EXIT.interrupted);
      interruption.abort(new Error('interrupted'));
      resolve();
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
  let exitCode: number = EXIT.done;
  try {
    const serving = await start(interruption.signal);
    await told;
    await serving.stop();
  } catch (error) {
    if (!interruption.signal.aborted) exitCode = complain(error);
  }
  // What is still open, such as the wait for a host that never answers, holds up no end.
  process.exit(exitCode);
}

/** Runs the service of a command; see `serve`. Loaded when it is wanted, since it brings the queue with it. */
export async function executeServing(name: string, roles: Roles): Promise<void> {
  await executeService(async (signal) => {
    const { serve } = await import('./serve.js');
    return await serve(name, roles, signal);
  });
}
