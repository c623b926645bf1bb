/** The least number of insertions, deletions and substitutions that make one word of another. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [i, letter] of Array.from(one).entries()) {
    const next = [i + 1];
    for (const [j, wanted] of Array.from(other).entries()) {
      const replaced = (row[j] ?? 0) + (letter === wanted ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Letter case and separators don't count: people get them wrong most often. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** The known name that `name` probably means, of which a quarter of the letters may be wrong; null if none is similar. */
export function nearest(name: string, known: readonly string[]): string | null {
  const one = plain(name);
  const similar = known
    .map((candidate) => ({ candidate, wrong: distance(one, plain(candidate)) }))
    .filter(({ candidate, wrong }) => wrong * 4 <= Math.min(one.length, plain(candidate).length));
  return similar.sort((a, b) => a.wrong - b.wrong)[0]?.candidate ?? null;
}
