import type { LimitOptions } from './limits.js';
import type { LogEntry } from './log.js';
import type { ProfileName, Quirks } from './profiles.js';
import type { RedirectOptions } from './redirects.js';
import type { SellerSpec } from './seller.js';
import type { Language } from './words.js';

export interface SimulatorOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Path below which the API lives, such as `/shop`; default none. */
  readonly basePath?: string;
  /** Default `documented`. */
  readonly profile?: ProfileName;
  /** Single quirks that differ from the profile. */
  readonly quirks?: Partial<Quirks>;
  readonly sellers: readonly SellerSpec[];
  /** Per client address; default 0, no limit. */
  readonly requestsPerMinute?: number;
  readonly limit?: Partial<LimitOptions>;
  /** Default `en`. */
  readonly language?: Language;
  /** Status of every error envelope; default: that of the field notes' error table. */
  readonly errorStatus?: number;
  /** Serve TLS with this certificate. */
  readonly https?: { readonly key: string; readonly cert: string };
  readonly redirects?: RedirectOptions;
  /** Host names served, without port; others get a 421 page. Default: all. */
  readonly knownHosts?: readonly string[];
  /** A request header in which the key is looked for too; default none (field notes). */
  readonly keyHeader?: string;
  /** `auto`: br or gzip, whichever the client accepts. Default `none`. */
  readonly compression?: 'auto' | 'gzip' | 'br' | 'none';
  /** Render each list once to a temporary file and send it from there. No use with an unstable order. */
  readonly prerender?: boolean;
  /** Told of each request when its answer has ended or broken off. */
  readonly onAnswered?: (entry: LogEntry) => void;
  /** Milliseconds since 1970, for limits and their headers; default the system's clock. */
  readonly now?: () => number;
}
