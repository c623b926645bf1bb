import type { Socket } from 'node:net';
import symbols from 'undici/lib/core/symbols.js';

/** The internals of an undici client that `resumeParserAtEnd` needs. */
interface ClientInternals {
  readonly [symbols.kSocket]: Socket & { [symbols.kParser]?: Parser | null };
}

interface Parser {
  paused: boolean;
  readonly ptr: number;
  readonly llhttp: { readonly llhttp_resume: (ptr: number) => void };
  readonly resume: () => void;
}

/**
 * Works around undici 7: it throws an uncatchable error if a connection ends while its parser is paused
 * (https://github.com/nodejs/undici/issues/5360). That happens whenever a list is read more slowly than it
 * arrives from a server that closes connections. So resume the parser before undici handles the end.
 * undici 8 has no such bug, but needs Node 22.
 */
export function resumeParserAtEnd(client: unknown): void {
  const socket = (client as ClientInternals)[symbols.kSocket];
  socket.prependListener('end', () => {
    const parser = socket[symbols.kParser];
    // All bytes have arrived. This delivers those that the parser still holds, which may pause it again.
    parser?.resume();
    if (parser?.paused !== true) return;
    parser.llhttp.llhttp_resume(parser.ptr);
    parser.paused = false;
  });
}
