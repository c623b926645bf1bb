import type { Writable } from 'node:stream';
import { styleText } from 'node:util';

/** A stream that may be a terminal, such as `process.stdout`. */
export interface Output extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export type Style = Parameters<typeof styleText>[0];

/** What a stream can show. */
export interface Look {
  /** Columns to fit into; null for pipes and files, which are never cut. */
  readonly columns: number | null;
  readonly colour: boolean;
}

/**
 * Colours only on a terminal and without NO_COLOR (any value but an empty one, as no-color.org
 * says) or TERM=dumb.
 */
export function lookOf(output: Output, env: NodeJS.ProcessEnv): Look {
  if (output.isTTY !== true) return { columns: null, colour: false };
  const noColour = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
  return { columns: output.columns ?? 80, colour: !noColour };
}

/** Text in a colour or weight, where the look has colours. The text must be safe already. */
export function paint(style: Style, text: string, look: Look): string {
  return look.colour ? styleText(style, text, { validateStream: false }) : text;
}
