/** Something to tell people about, by ids; the text is made when it is delivered. */
export type Alert =
  | { readonly kind: 'run-failed' | 'run-held'; readonly runId: string }
  | { readonly kind: 'audit-finished'; readonly auditId: string }
  | { readonly kind: 'seller-parked'; readonly seller: string; readonly runId: string | null }
  | {
      readonly kind: 'copy-stale';
      readonly seller: string;
      /** The last success, ISO 8601; null when there never was one. */
      readonly since: string | null;
    };

/** The same for the same incident, so that a queue that knows the id already tells it once. */
export function alertId(alert: Alert): string {
  switch (alert.kind) {
    case 'run-failed':
    case 'run-held':
      return `${alert.kind}.${alert.runId}`;
    case 'audit-finished':
      return `${alert.kind}.${alert.auditId}`;
    case 'seller-parked':
      return `${alert.kind}.${alert.seller}.${alert.runId ?? 'unknown'}`;
    case 'copy-stale': {
      const since = alert.since === null ? 'never' : String(Date.parse(alert.since));
      return `${alert.kind}.${alert.seller}.${since}`;
    }
  }
}
