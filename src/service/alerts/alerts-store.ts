import type { Db } from '../../db/db.js';
import { LATEST_BELIEVED, LATEST_PLANNED } from '../../db/moments.js';
import type { Alert } from '../../catalogue/types.js';
import type { AlertContent } from './content.js';

/** Where alerts are sent. Each may fail by itself. */
export type AlertChannelName = 'webhook' | 'mail';

/** An alert as it was written when it happened. */
export interface AlertRow {
  readonly alertId: string;
  readonly channel: AlertChannelName;
  readonly type: string;
  /** Deliveries that were tried. */
  readonly attempts: number;
  readonly retryAt: Date | null;
  readonly endedAt: Date | null;
  readonly message: { readonly alert: Alert; readonly content: AlertContent };
}

/** Which of these alerts are not recorded yet. */
export async function unknownAlerts({ pool }: Db, ids: readonly string[]): Promise<Set<string>> {
  const { rows } = await pool.query<{ id: string }>(
    `SELECT id FROM unnest($1::text[]) AS id
      WHERE NOT EXISTS (SELECT FROM mirror.alerts a WHERE a.alert_id = id)`,
    [ids],
  );
  return new Set(rows.map(({ id }) => id));
}

/** Records an alert for each channel, unless it is recorded. Deletes alerts of three months ago. */
export async function insertAlert(
  { pool }: Db,
  { alertId, type, message }: Pick<AlertRow, 'alertId' | 'type' | 'message'>,
  channels: readonly AlertChannelName[],
): Promise<void> {
  const { alert, content } = message;
  await pool.query(
    `WITH old AS (DELETE FROM mirror.alerts WHERE created_at < now() - interval '90 days')
     INSERT INTO mirror.alerts (alert_id, channel, type, seller_id, happened_at, message)
     SELECT $1, channel, $2, $3, $4, $5 FROM unnest($6::text[]) AS channel ON CONFLICT DO NOTHING`,
    [
      ...[alertId, type, 'seller' in alert ? alert.seller : null, content.at],
      ...[JSON.stringify(message), channels],
    ],
  );
}

const COLUMNS = `alert_id AS "alertId", channel, type, attempts, retry_at AS "retryAt",
                 ended_at AS "endedAt", message`;

export async function readAlert(
  { pool }: Db,
  alertId: string,
  channel: AlertChannelName,
): Promise<AlertRow | null> {
  const { rows } = await pool.query<AlertRow>(
    `SELECT ${COLUMNS} FROM mirror.alerts WHERE alert_id = $1 AND channel = $2`,
    [alertId, channel],
  );
  return rows[0] ?? null;
}

/** Alerts that wait to be sent now. A retry further ahead than a day is one of a clock that was wrong. */
export async function listWaitingAlerts({ pool }: Db): Promise<AlertRow[]> {
  const { rows } = await pool.query<AlertRow>(
    `SELECT ${COLUMNS} FROM mirror.alerts
      WHERE ended_at IS NULL
        AND (retry_at IS NULL OR retry_at <= now() OR retry_at > ${LATEST_PLANNED})
      ORDER BY created_at LIMIT 500`,
  );
  return rows;
}

/**
 * Records what came of an alert, unless it has ended: a job may run twice.
 * @param outcome when it is tried again, or how it ended
 * @param note what the receiver said, or why it was not sent
 */
export async function recordOutcome(
  { pool }: Db,
  { alertId, channel }: Pick<AlertRow, 'alertId' | 'channel'>,
  outcome: Date | 'sent' | 'dropped' | 'failed',
  note: string,
): Promise<void> {
  const [retryAt, ended] = outcome instanceof Date ? [outcome, null] : [null, outcome];
  await pool.query(
    `UPDATE mirror.alerts
        SET ended_at = CASE WHEN $3::text IS NOT NULL THEN now() END, outcome = $3, note = $4, retry_at = $5,
            attempts = attempts + CASE $3 WHEN 'dropped' THEN 0 ELSE 1 END
      WHERE alert_id = $1 AND channel = $2 AND ended_at IS NULL`,
    [alertId, channel, ended, note, retryAt],
  );
}

/** An alert for the list of alerts. */
export interface EndedAlert {
  readonly alertId: string;
  readonly channel: AlertChannelName;
  readonly title: string;
  readonly at: Date;
  /** `sent`, `dropped`, `failed` or `waiting`. */
  readonly outcome: string;
  readonly note: string | null;
}

/** The newest alerts, also those that wait. */
export async function listAlerts({ pool }: Db, limit: number): Promise<EndedAlert[]> {
  const { rows } = await pool.query<EndedAlert>(
    `SELECT alert_id AS "alertId", channel, message->'content'->>'title' AS title,
            coalesce(ended_at, created_at) AS at, coalesce(outcome, 'waiting') AS outcome, note
       FROM mirror.alerts WHERE created_at <= ${LATEST_BELIEVED}
      ORDER BY created_at DESC, alert_id, channel LIMIT $1`,
    [limit],
  );
  return rows;
}
