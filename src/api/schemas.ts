import { z } from 'zod';

/** Most codes of one request. */
export const MAX_CODES = 100;

const YEAR_S = 366 * 86_400;

/** Completes a sentence that begins with the name of the field. */
const kind = (what: string) => ({
  error: ({ input }: { readonly input?: unknown }) =>
    input === undefined ? 'is missing' : `must be ${what}`,
});
const strict = {
  error: (issue: { readonly code?: string; readonly keys?: readonly string[] }) =>
    issue.code === 'unrecognized_keys'
      ? `has no field ${(issue.keys ?? [])
          .slice(0, 3)
          .map((key) => JSON.stringify(key.slice(0, 40)))
          .join(', ')}`
      : 'must be an object, such as {"code": "…"}',
};

const maxAge = z
  .int(kind('a whole number of seconds'))
  .min(0, 'must not be negative')
  .max(YEAR_S, 'must be at most a year')
  .describe(
    'Seconds that the last check may be old. 0: ask the marketplace now. Default: 86400 for a valid code, 3600 for an invalid one.',
  );
const item = z
  .int(kind('a whole number'))
  .positive('must be positive')
  .describe('Id of the item that the code should be for; `item_matches` compares it.');
const code = z
  .string(kind('a text'))
  .min(1, 'is empty')
  .max(1_000, 'is longer than 1,000 characters')
  .describe('The purchase code as the customer gave it.');
const seller = z
  .string(kind('a text'))
  .min(1, 'is empty')
  .max(100, 'is longer than 100 characters')
  .describe(
    'Name of the seller. Without it, all sellers that the token may ask are asked one after another, up to 20. Codes of `check-many` need it if there are several.',
  );

export const checkRequest = z.strictObject(
  {
    code,
    item: item.optional(),
    max_age: maxAge.optional(),
    seller: seller.optional(),
  },
  strict,
);

export const checkManyRequest = z.strictObject(
  {
    codes: z
      .array(
        z.union([code, z.strictObject({ code, item: item.optional() }, strict)], {
          error: 'must be a code, or an object with a code and an item',
        }),
        kind('a list of codes'),
      )
      .min(1, 'is empty')
      .max(MAX_CODES, `has more than ${MAX_CODES} codes`),
    max_age: maxAge.optional(),
    seller: seller.optional(),
  },
  strict,
);

export const answer = z.object({
  verdict: z
    .enum(['valid', 'invalid', 'no_longer_valid', 'pending', 'unproven'])
    .describe(
      'valid: the purchase was found. invalid: denied twice, with proof. no_longer_valid: invalid now, valid before. pending: denied, and never proven before; ask again after `again_after` seconds. unproven: the marketplace gave no answer; treat the code as you would while the marketplace is down.',
    ),
  reason: z.string().nullable().describe('Why there is no verdict, for `unproven`.'),
  again_after: z
    .int()
    .nullable()
    .describe(
      'Seconds after which to ask again: for `pending`, for an old verdict that is being checked again, and for `unproven` if known.',
    ),
  item_id: z.int().nullable(),
  item_name: z.string().nullable(),
  item_matches: z
    .boolean()
    .nullable()
    .describe('Whether the purchase is of the `item` asked for; null: not asked, or unknown.'),
  license_type: z.string().nullable(),
  purchased_at: z.string().nullable().describe('UTC, ISO 8601.'),
  support: z
    .enum(['active', 'expired', 'none', 'unknown'])
    .nullable()
    .describe('unknown: the marketplace sent an end of support that can’t be read.'),
  supported_until: z.string().nullable().describe('UTC, ISO 8601.'),
  downloaded: z
    .boolean()
    .nullable()
    .describe('Whether the buyer has downloaded the item; null: unknown.'),
  checked_at: z.string().nullable().describe('When the verdict was last proven, UTC, ISO 8601.'),
  age_s: z.int().nullable().describe('Seconds since then.'),
  stale: z
    .boolean()
    .describe(
      'True: older than asked for, because the marketplace gave no answer, or because it denies the code now and the second check is not done.',
    ),
  seller: z
    .string()
    .nullable()
    .describe('Who sold the code, if several sellers were asked; null otherwise.'),
  explanation: z.string().describe('A sentence to show a customer.'),
});

export type Answer = z.infer<typeof answer>;

export const answers = z.object({ results: z.array(answer).describe('In the order of `codes`.') });

export const problem = z.object({ error: z.string().describe('What is wrong, and what to do.') });
