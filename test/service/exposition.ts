export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LABEL = /(\w+)="((?:[^"\\\n]|\\["\\n])*)"/g;
const SAMPLE = /^([a-zA-Z_:]\w*)(?:\{(.*)\})? (NaN|[+-]?(?:[\d.e+-]+|Inf))$/i;

/** Parses Prometheus's text format. @throws on malformed lines and repeated series */
export function parseExposition(text: string): Sample[] {
  const seen = new Set<string>();
  return text.split('\n').flatMap((line) => {
    if (line === '' || /^# (?:HELP|TYPE) \w+ /.test(line)) return [];
    const [, name, labels = '', value = ''] = SAMPLE.exec(line) ?? [];
    const series = `${name} ${labels.split(',').toSorted().join()}`;
    if (name === undefined || seen.has(series)) throw new Error(`twice or malformed: ${line}`);
    seen.add(series);
    const pairs = [...labels.matchAll(LABEL)].map(([, key, word]) => [key, word]);
    const number = Number(value.replace('Inf', 'Infinity'));
    return [{ name, labels: Object.fromEntries(pairs) as Sample['labels'], value: number }];
  });
}

/** Returns the value of the first sample with this name and these labels. */
export function valueOf(
  samples: readonly Sample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  return samples.find(
    (sample) =>
      sample.name === name &&
      Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  )?.value;
}
