import type { BackupManifest } from '../../store/backup/manifest.js';
import { moment } from '../../domain/moment.js';
import { plural } from '../output/index.js';

/** Tables that a person knows by name. */
const SHOWN: readonly (readonly [table: string, one: string, many?: string])[] = [
  ['sellers', 'seller'],
  ['items', 'item'],
  ['item_versions', 'superseded state'],
  ['item_changes', 'change'],
  ['purchase_codes', 'purchase code'],
  ['code_checks', 'check'],
  ['audits', 'audit'],
  ['runs', 'run'],
];

/** What is in a backup: `the state of 2026-11-21 02:00:12Z: 1 seller · 100 items`. */
export function contentsText({ createdAt, tables }: BackupManifest): string {
  const parts = SHOWN.flatMap(([table, one, many]) => {
    const rows = tables.find(({ name }) => name === table)?.rows ?? 0;
    return rows === 0 ? [] : [plural(rows, one, many)];
  });
  return `the state of ${moment(new Date(createdAt))}: ${parts.join(' · ') || 'no rows'}`;
}

/** The same for scripts. */
export function contentsJson({ createdAt, migrations, tables }: BackupManifest): object {
  const rows = Object.fromEntries(tables.map((table) => [table.name, table.rows]));
  return { createdAt, migrations, rows };
}
