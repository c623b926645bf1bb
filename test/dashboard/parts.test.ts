import { html } from 'hono/html';
import { expect, it } from 'vitest';
import { Ago } from '../../src/dashboard/parts.js';

const DAY_MS = 86_400_000;

it.each([
  [3 * DAY_MS, '3 d ago'],
  [400 * DAY_MS, '400 d ago'],
  [730 * DAY_MS, '730 d ago'],
  [3_392 * DAY_MS, '9 years ago'],
  [-2 * 3_600_000 - 5_000, 'in 2 h'],
])(
  'an age on a page has the words of the terminal, and no “1 years”: %d ms is %s',
  async (ms, text) => {
    const shown = await html`${Ago({ at: new Date(Date.now() - ms) })}`;
    expect(shown.toString()).toContain(`>${text}</time>`);
  },
);
