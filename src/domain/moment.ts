/** A moment to the second, in UTC: `2026-11-21 02:00:12Z`. */
export function moment(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')}Z`;
}
