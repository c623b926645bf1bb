import { setTimeout } from 'node:timers/promises';
import type { Hono } from 'hono';
import type { z } from 'zod';
import { CHANGES, readShownChanges } from '../catalogue/changes-listing.js';
import { heldRemedy, problemRemedy } from '../catalogue/problem.js';
import { followRun } from '../catalogue/requests-store.js';
import type { Db } from '../db/db.js';
import { jsonText, withColumnNames } from '../domain/json-dialect.js';
import type { Asked } from '../service/ask.js';
import { statusJson, type Board } from '../service/board.js';
import { changesParameters, MAX_WAIT_S, noParameters, runParameters } from './manage-schemas.js';
import { faultsOf, Refusal, type ApiContext, type ApiEnv } from './refusal.js';

export interface ManageParts {
  /** @param only of this seller; null: of all */
  readonly board: (only: string | null) => Promise<Pick<Board, 'sellers' | 'feeds' | 'general'>>;
  /** Asks for a sync. @returns null if there is no such seller */
  readonly ask: (seller: string, askedBy: string) => Promise<Asked | null>;
}

/** A run is looked at so often while a request waits for its end (ms). */
const LOOK_EVERY_MS = 500;

/**
 * Adds what programs manage the mirror with: its state, syncs, runs and changes. A token for one seller sees nothing
 * of others.
 * @param signal aborted when the process ends: nobody waits any longer
 */
export function addManagement(
  app: Hono<ApiEnv>,
  db: Db,
  { board, ask }: ManageParts,
  signal: AbortSignal,
): void {
  app.get('/v1/status', async (c) => {
    parametersOf(c, noParameters);
    const { sellerId } = c.var.caller;
    const { sellers, feeds, general } = await board(sellerId);
    // A feed of several sellers tells of the others, too.
    const shown = feeds.filter(
      (feed) => sellerId === null || feed.sellers?.every((seller) => seller === sellerId),
    );
    const needs = sellerId === null ? general : [];
    return send(c, { sellers: statusJson({ sellers, feeds: shown, general: needs }) });
  });

  app.post('/v1/sellers/:seller/sync', async (c) => {
    parametersOf(c, noParameters);
    const seller = c.req.param('seller');
    const { sellerId, name } = c.var.caller;
    const isAllowed = sellerId === null || sellerId === seller;
    const found = isAllowed ? await ask(seller, `token ${name}`) : null;
    if (found === null) throw new Refusal(404, 'there is no such seller for this token');
    const { runId, askedAt } = found;
    c.header('location', `/v1/runs/${runId}`);
    return send(c, { runId, sellerId: seller, state: 'asked', askedAt }, 202);
  });

  app.get('/v1/runs/:run', async (c) => {
    const { wait = '0' } = parametersOf(c, runParameters);
    const id = c.req.param('run');
    const until = performance.now() + Math.min(Number(wait), MAX_WAIT_S) * 1000;
    const caller = c.req.raw.signal;
    for (;;) {
      const run = /^\d{1,18}$/.test(id)
        ? await followRun(db, BigInt(id), c.var.caller.sellerId)
        : null;
      if (run === null) throw new Refusal(404, 'there is no such run for this token');
      const leftMs = until - performance.now();
      if (run.ended || leftMs <= 0 || signal.aborted || caller.aborted) {
        return send(c, { ...run, remedy: remedyOf(run) });
      }
      await setTimeout(Math.min(leftMs, LOOK_EVERY_MS), null, { signal }).catch(() => null);
    }
  });

  app.get('/v1/changes', async (c) => {
    const { after = '0', limit = '100', seller } = parametersOf(c, changesParameters);
    const { sellerId } = c.var.caller;
    if (sellerId !== null && seller !== undefined && seller !== sellerId) {
      throw new Refusal(422, 'seller: this token may not ask about that seller');
    }
    const page = { after: BigInt(after), limit: Number(limit) };
    const rows = await readShownChanges(db, { seller: sellerId ?? seller }, page, false);
    const next = rows.at(-1)?.seq ?? page.after;
    return send(c, { changes: rows.map((row) => CHANGES.json?.(row) ?? row), next });
  });
}

function remedyOf(run: NonNullable<Awaited<ReturnType<typeof followRun>>>): string | null {
  if (run.state === 'held') return heldRemedy(run.runId);
  return run.problem === null ? null : problemRemedy(run.problemCode, run.sellerId);
}

function parametersOf<S extends z.ZodType>(c: ApiContext, schema: S): z.output<S> {
  const read = schema.safeParse(Object.fromEntries(new URL(c.req.url).searchParams));
  if (read.success) return read.data;
  throw new Refusal(422, faultsOf(read.error));
}

/** Answers with the names of columns, as `--json` does. */
function send(c: ApiContext, value: object, status: 200 | 202 = 200): Response {
  const headers = { 'content-type': 'application/json' };
  return c.body(jsonText(withColumnNames(value)), status, headers);
}
