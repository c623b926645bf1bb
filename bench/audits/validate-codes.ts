/** Baseline: every code validated by a bare loop of undici, so many at a time, the answers thrown away. */
import { readFileSync } from 'node:fs';
import { Agent, request } from 'undici';
import { given, tell } from '../tell.js';

export interface ValidateInput {
  readonly url: string;
  readonly key: string;
  readonly file: string;
  readonly concurrency: number;
}

const { url, key, file, concurrency } = given() as ValidateInput;
const codes = readFileSync(file, 'utf8').trim().split('\n').values();
const dispatcher = new Agent({ connections: concurrency });
const headers = { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' };
const started = performance.now();
await Promise.all(
  Array.from({ length: concurrency }, async () => {
    for (const code of codes) {
      const body = new URLSearchParams({ api_key: key, purchase_code: code }).toString();
      const answer = await request(`${url}/api/purchases/validation`, {
        ...{ method: 'POST', headers, body, dispatcher },
      });
      await answer.body.dump();
    }
  }),
);
const ms = performance.now() - started;
await dispatcher.close();
tell({ ms });
