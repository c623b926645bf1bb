import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';

const strings = z.array(z.string());
const environment = z.record(z.string(), z.string());

/** The parts of the Compose file format that this project uses; all others are rejected. */
const service = z.strictObject({
  image: z.string(),
  build: z.string().optional(),
  profiles: strings.optional(),
  command: strings.optional(),
  init: z.boolean().optional(),
  environment: environment.optional(),
  secrets: strings.optional(),
  configs: z.array(z.strictObject({ source: z.string(), target: z.string() })).optional(),
  volumes: strings.optional(),
  ports: strings.optional(),
  depends_on: z
    .record(
      z.string(),
      z.strictObject({ condition: z.enum(['service_healthy', 'service_completed_successfully']) }),
    )
    .optional(),
  healthcheck: z
    .union([
      z.strictObject({ disable: z.literal(true) }),
      z.strictObject({
        test: strings,
        interval: z.string(),
        timeout: z.string(),
        retries: z.number(),
        start_period: z.string(),
      }),
    ])
    .optional(),
  logging: z.strictObject({ driver: z.string() }),
  restart: z.string(),
  stop_grace_period: z.string().optional(),
  cap_drop: strings.optional(),
  read_only: z.boolean().optional(),
  tmpfs: strings.optional(),
  mem_limit: z.string().optional(),
  shm_size: z.string().optional(),
  security_opt: strings.optional(),
});

const file = z.strictObject({
  name: z.string(),
  services: z.record(z.string(), service),
  volumes: z.record(z.string(), z.null()),
  secrets: z.record(z.string(), z.strictObject({ file: z.string() })),
  configs: z.record(z.string(), z.strictObject({ content: z.string() })),
});

export type ComposeFile = z.infer<typeof file>;
export type ComposeService = z.infer<typeof service>;

/** Reads a Compose file: merges anchors, drops `x-` parts, and keeps variables unexpanded. */
export function readCompose(path: URL): ComposeFile {
  const all = parse(readFileSync(path, 'utf8'), { merge: true, strict: true }) as object;
  const parts = Object.entries(all).filter(([name]) => !name.startsWith('x-'));
  return file.parse(Object.fromEntries(parts));
}

const VARIABLE = /\$(?:(\$)|\{(\w+)(?::([-+])([^{}]*))?\})/g;

/** Expands variables as Compose does: `${NAME}`, `${NAME:-default}`, `${NAME:+instead}` and `$$`. */
export function interpolate(text: string, variables: Readonly<Record<string, string>>): string {
  return text.replaceAll(VARIABLE, (_, dollar, name: string, operator, word: string = '') => {
    if (dollar === '$') return '$';
    const value = variables[name] ?? '';
    if (operator === '+') return value === '' ? '' : word;
    return value === '' ? word : value;
  });
}

/** Returns the names of the variables in a text. */
export function variablesIn(text: string): string[] {
  return [...text.matchAll(VARIABLE)].flatMap(([, , name]) => name ?? []);
}
