import type { Secret } from './secret.js';

/** One server's host and port. */
export interface RedisNode {
  readonly host: string;
  readonly port: number;
}

/** Where Redis (or Valkey) is, and how to log in. It can be printed: the passwords mask themselves. */
export interface RedisTarget {
  /**
   * `single`: one server. `sentinel`: sentinels that know the master's address. `cluster`: some of
   * the cluster's nodes.
   */
  readonly mode: 'single' | 'sentinel' | 'cluster';
  /** At least one; exactly one for `single`. */
  readonly nodes: readonly RedisNode[];
  /** The master's name for sentinels; null otherwise. */
  readonly masterName: string | null;
  readonly username: string | null;
  readonly password: Secret | null;
  /** Of the sentinels themselves, when they ask for one. */
  readonly sentinelPassword: Secret | null;
  /** Number of the database; a cluster has only 0. */
  readonly database: number;
  readonly tls: boolean;
}
