/** The types of alerts, as webhooks name them and as ALERTS_OFF turns them off. */
export const ALERT_TYPES = [
  ...(['run.failed', 'run.held', 'seller.parked', 'audit.finished', 'copy.stale'] as const),
  ...(['feed.stale', 'feed.recovered'] as const),
  ...(['codes.no_longer_valid', 'balance.changed', 'items.removed'] as const),
] as const;

export type AlertType = (typeof ALERT_TYPES)[number];
