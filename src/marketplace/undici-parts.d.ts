/** Only undici's agent: the whole package, with fetch, WebSocket, cache and mocks, takes three times as long to load. */
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export default Agent;
}

/** The keys under which undici keeps a client's socket and a socket's parser. */
declare module 'undici/lib/core/symbols.js' {
  const symbols: { readonly kSocket: unique symbol; readonly kParser: unique symbol };
  export default symbols;
}
