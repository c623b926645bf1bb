/** All of undici takes three times as long to load: with its fetch, WebSocket, cache and mocks. */
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export default Agent;
}

/** Where undici keeps the socket of a client, and the parser of a socket. */
declare module 'undici/lib/core/symbols.js' {
  const symbols: { readonly kSocket: unique symbol; readonly kParser: unique symbol };
  export default symbols;
}
