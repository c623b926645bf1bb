/** A sample of a metric. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = String.raw`[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"`;
const VALUE = String.raw`[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN`;
const HELP = new RegExp(`^# HELP (${NAME}) [^\n]+$`);
const TYPE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram|summary|untyped)$`);
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)\\})? (${VALUE})$`, 'i');

/**
 * Reads Prometheus's text format, version 0.0.4, strictly: every line must match it, every sample
 * must follow the type it belongs to, and no series may come twice.
 * @throws Error that names the line
 */
export function parseExposition(text: string): Sample[] {
  if (!text.endsWith('\n')) throw new Error('the last line does not end');
  const samples: Sample[] = [];
  const seen = new Set<string>();
  const families = new Set<string>();
  let family = { name: '', type: '' };
  for (const line of text.split('\n')) {
    if (line === '' || HELP.test(line)) continue;
    const [, name, type] = TYPE.exec(line) ?? [];
    if (name !== undefined && type !== undefined) {
      if (families.has(name)) throw new Error(`twice: ${line}`);
      families.add(name);
      family = { name, type };
      continue;
    }
    const sample = readSample(line);
    if (!belongs(sample.name, family)) throw new Error(`not of ${family.name}: ${line}`);
    const labels = Object.entries(sample.labels).map((pair) => pair.join('='));
    const series = [sample.name, ...labels.sort()].join(' ');
    if (seen.has(series)) throw new Error(`twice: ${line}`);
    seen.add(series);
    samples.push(sample);
  }
  return samples;
}

function readSample(line: string): Sample {
  const [, name, labels = '', value] = SAMPLE.exec(line) ?? [];
  if (name === undefined || value === undefined) throw new Error(`not of the format: ${line}`);
  const pairs = [...labels.matchAll(new RegExp(`(\\w+)="((?:[^"\\\\]|\\\\.)*)"`, 'g'))];
  return {
    name,
    labels: Object.fromEntries(pairs.map(([, key, text]) => [key, text])),
    value: Number(value.replace('Inf', 'Infinity')),
  };
}

function belongs(name: string, family: { name: string; type: string }): boolean {
  if (name === family.name) return family.type !== 'histogram';
  const parts = { histogram: ['_bucket', '_sum', '_count'], summary: ['_sum', '_count'] };
  const suffixes = parts[family.type as keyof typeof parts] ?? [];
  return suffixes.some((suffix) => name === family.name + suffix);
}

/** The value of one series; undefined when it is not there. */
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
