import { z } from 'zod';

/** Most seconds that a request may wait for a run to end. */
export const MAX_WAIT_S = 60;
/** Most changes of one page. */
const MAX_CHANGES = 1_000;

/** Completes a sentence that begins with the name of the parameter. */
const number = (least: number, most: number, about: string) =>
  z
    .string()
    .regex(/^\d{1,18}$/, { error: 'must be a whole number', abort: true })
    .refine((text) => Number(text) >= least, `must be at least ${least}`)
    .refine((text) => Number(text) <= most, `must be at most ${most}`)
    .describe(about);

const unknown = {
  error: (issue: { readonly code?: string; readonly keys?: readonly string[] }) =>
    issue.code === 'unrecognized_keys'
      ? `has no parameter ${JSON.stringify(issue.keys?.[0]?.slice(0, 40))}`
      : undefined,
};

/** The parameters of requests, all of them text. */
export const noParameters = z.strictObject({}, unknown);
export const runParameters = z.strictObject(
  {
    wait: number(
      0,
      MAX_WAIT_S,
      `Seconds to wait until the run has ended, up to ${MAX_WAIT_S}. Default: 0.`,
    ).optional(),
  },
  unknown,
);
export const changesParameters = z.strictObject(
  {
    after: number(
      0,
      Number.MAX_SAFE_INTEGER,
      'Only changes with a greater number: `next` of the page before. Default: 0, from the first one.',
    ).optional(),
    limit: number(1, MAX_CHANGES, 'Most changes of the page. Default: 100.').optional(),
    seller: z.string().min(1).max(100).describe('Only changes of this seller.').optional(),
  },
  unknown,
);

const moment = z.string().describe('UTC, ISO 8601.');

export const status = z.object({
  sellers: z
    .array(
      z.looseObject({
        seller_id: z.string(),
        configured: z.boolean(),
        verdict: z
          .enum(['running', 'current', 'stale', 'never', 'failing', 'paused', 'parked'])
          .describe('`parked`: a problem stopped its schedules until a person solves it.'),
        current: z.boolean().describe('Whether the copy is current, also during a run.'),
        live_items: z.int(),
        items_mirrored_at: moment.nullable(),
        needs: z
          .array(
            z.looseObject({
              kind: z.string(),
              title: z.string(),
              text: z.string(),
              remedy: z.string(),
            }),
          )
          .describe('What needs a person, the most urgent first.'),
        feeds: z.array(z.looseObject({ feed: z.string(), lag_seconds: z.int() })),
      }),
    )
    .describe('The members are those of `seller-mirror status --json`.'),
});

export const asked = z.object({
  run_id: z.int().describe('Its first run. Ask for it at `/v1/runs/ID`.'),
  seller_id: z.string(),
  state: z.literal('asked'),
  asked_at: moment,
});

export const run = z.object({
  run_id: z
    .int()
    .describe(
      'The run gets a number of its own when it begins; it is found by the first one, too.',
    ),
  seller_id: z.string(),
  kind: z.enum(['account', 'items', 'item', 'approval']),
  state: z.enum(['asked', 'running', 'succeeded', 'held', 'failed', 'interrupted']),
  ended: z.boolean().describe('Whether nothing more will be done.'),
  asked_by: z.string().nullable(),
  started_at: moment.nullable(),
  finished_at: moment.nullable(),
  retry_at: moment.nullable().describe('When a failed run is tried again.'),
  ...Object.fromEntries(
    (
      [
        'listed',
        'added',
        'changed',
        'unchanged',
        'restored',
        'missing',
        'removed',
        'quarantined',
        'api_calls',
      ] as const
    ).map((name) => [name, z.int()]),
  ),
  warnings: z.array(z.string()),
  problem_code: z.string().nullable(),
  problem: z.string().nullable().describe('What went wrong, in words.'),
  remedy: z.string().nullable().describe('What to do about it, in words.'),
});

export const changes = z.object({
  changes: z.array(
    z.looseObject({
      seq: z.int().describe('Number of the change. Later ones are greater, with gaps.'),
      seller_id: z.string(),
      item_id: z.int(),
      item_name: z.string().nullable(),
      run_id: z.int(),
      changed_at: moment.describe('When the run that found it began.'),
      class: z.string(),
      field: z.string(),
      old_value: z.unknown(),
      new_value: z.unknown(),
    }),
  ),
  next: z
    .int()
    .describe('Pass it as `after` for the next page. No change is missed or told twice.'),
});
