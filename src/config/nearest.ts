/** Insertions, deletions, substitutions and swaps between two words (optimal string alignment). */
function editDistance(one: string, other: string): number {
  const rows: number[][] = [Array.from({ length: other.length + 1 }, (_, index) => index)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? Infinity;
  for (let i = 1; i <= one.length; i++) {
    rows[i] = [i];
    const row = rows[i] ?? [];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1];
      const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      row[j] = Math.min(
        at(i - 1, j) + 1,
        at(i, j - 1) + 1,
        at(i - 1, j - 1) + (same ? 0 : 1),
        swapped ? at(i - 2, j - 2) + 1 : Infinity,
      );
    }
  }
  return at(one.length, other.length);
}

/** Letter case and separators don't count: people get them wrong most often. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/**
 * The known name that `name` probably means; null if none is similar.
 * @param share of the letters that may be wrong
 */
export function nearest(name: string, known: readonly string[], share = 1 / 5): string | null {
  let best: string | null = null;
  let least = Infinity;
  const one = plain(name);
  for (const candidate of known) {
    const other = plain(candidate);
    const most = Math.min(one.length, other.length) * share;
    if (Math.abs(one.length - other.length) > most) continue;
    const distance = editDistance(one, other);
    if (distance <= most && distance < least) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}
