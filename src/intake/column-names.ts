/** Names that columns of codes go by, the plainest first; compared without case and punctuation. */
const NAMES: readonly (readonly string[])[] = [
  ['purchasecode', 'purchasecodes', 'itempurchasecode', 'purchasekey'],
  ['licensecode', 'licencecode', 'licensekey', 'licencekey', 'licensekeys', 'licencekeys'],
  ['code', 'codes', 'license', 'licence', 'serial', 'key'],
];

/** A name without letter case, spaces and punctuation. */
export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** How plainly a name says that the column holds codes: 0 is plainest; null when it doesn't. */
export function nameRank(name: string): number | null {
  const rank = NAMES.findIndex((names) => names.includes(plainName(name)));
  return rank < 0 ? null : rank;
}

/**
 * The names each once, so that a column can be told by its name: the second `note` becomes
 * `note_2`; an empty name `column_3`.
 * @param taken names that others have already
 */
export function uniqueNames(names: readonly string[], taken: readonly string[] = []): string[] {
  // The names themselves come first: a `note_2` of the list's own stays what it is.
  const used = new Set([...taken, ...names]);
  const seen = new Set(taken);
  return names.map((given, index) => {
    const name = given.trim() === '' ? `column_${index + 1}` : given;
    let unique = name;
    for (let n = 2; seen.has(unique) || (unique !== given && used.has(unique)); n++) {
      unique = `${name}_${n}`;
    }
    seen.add(unique);
    return unique;
  });
}
