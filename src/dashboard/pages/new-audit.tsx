import { isUserError, type UserError } from '../../domain/user-error.js';
import { setTimeout as wait } from 'node:timers/promises';
import { ensureSeller } from '../../catalogue/sellers-store.js';
import { getAudit } from '../../codes/audits-store.js';
import {
  addDraft,
  chooseColumn,
  type Draft,
  type DraftOwner,
  readDraft,
  readDraftContent,
  recordDraft,
} from '../../codes/drafts-store.js';
import {
  codesToCheck,
  costOf,
  enterLists,
  measureLists,
  reportOf,
  verifyKey,
} from '../../codes/enter-list.js';
import { doubtOf } from '../../codes/lists/doubt.js';
import { readList } from '../../codes/lists/read-list.js';
import type { List } from '../../codes/lists/types.js';
import { readKnownValid } from '../../codes/situation-store.js';
import type { SellerConfig } from '../../config/index.js';
import { pruneDrafts } from '../../db/prune.js';
import { hostName } from '../../domain/address.js';
import { parseDuration } from '../../domain/moment.js';
import { maskCode } from '../../domain/secret.js';
import { plural } from '../../domain/text.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  isOperator,
  Problem,
  queueNotice,
  runAction,
} from '../context.js';
import { capital } from '../format.js';
import { page } from '../layout.js';
import { Empty } from '../parts.js';
import { parseCode, parseId, parseNumber, readForm } from '../query.js';
import { tokenHash } from '../security.js';
import { uploadedList } from '../upload.js';
import { draftPage, ListForm } from './new-audit-views.js';

/** How many known codes are read to learn what a seller's codes look like. */
const KNOWN_CODES_SAMPLE = 200;
/** Longest wait for the check of the API key (ms). */
const KEY_CHECK_MS = 15_000;
/** Longest time for reading a list, or for starting its check (ms). */
const WORK_MS = 10 * 60_000;
/** How long a request waits for that (ms). Proxies wait about a minute, and millions of lines take longer. */
const WAIT_MS = 2_000;

/** Work of this process on a draft. If the process ends, the page of the draft has it done again. */
interface Work {
  /** Lines handled so far. */
  lines: number;
  readonly stopping: AbortController;
}

/** `/audits/new`: upload a list. `/audits/ID` of a draft: see what was read, start the check. */
export function addNewAudit(app: Dashboard, parts: DashboardParts): void {
  const { db, config, queues, uploads, log } = parts;
  const works = new Map<bigint, Work>();

  app.get('/audits/new', (c) => {
    if (!isOperator(c)) {
      return page(c, { title: 'Check codes' }, <Empty>Only operators can start checks.</Empty>);
    }
    return page(
      c,
      {
        title: 'Check codes',
        lead: 'Find out which codes of a list are valid. Nothing is checked until you start the check.',
        isStatic: true,
      },
      config.sellers.length === 0 ? (
        <Empty>
          No seller is configured for this dashboard. Sellers are named in the settings on the
          server.
        </Empty>
      ) : (
        <ListForm token={c.get('token')} sellers={config.sellers.map(({ name }) => name)} />
      ),
    );
  });

  app.post('/audits/new', async (c) => {
    const form = await readForm(c);
    const seller = sellerNamed(form['seller']);
    const list = await uploadedList(form, uploads.maxBytes);
    await ensureSeller(db, seller.name, hostName(seller.url));
    const auditId = await addDraft(db, ownerOf(c), { sellerId: seller.name, ...list });
    for (const pruned of await pruneDrafts(db)) works.get(pruned)?.stopping.abort();
    const draft = await readDraft(db, ownerOf(c), auditId);
    if (draft !== null) await read(draft);
    if ((await readDraft(db, ownerOf(c), auditId)) !== null) return c.redirect(urlOf(auditId), 303);
    throw new Problem(
      'This list was replaced by newer uploads',
      'Only 3 lists wait for their start at the same time. Start those, then upload this one again.',
      409,
    );
  });

  app.get('/audits/:id', async (c, next) => {
    const id = parseNumber(c.req.param('id'));
    const draft = id === null ? null : await readDraft(db, ownerOf(c), id);
    if (draft === null) return next();
    const { auditId, reading, problem } = draft;
    if (reading === null && problem === null && !works.has(auditId)) void read(draft);
    return draftPage(c, draft, works.get(auditId)?.lines ?? null);
  });

  app.post('/audits/:id/read', async (c) => {
    const draft = await draftIn(c);
    const { column, sheet } = await readForm(c);
    const chosen = { ...draft, column: textIn(column), sheet: textIn(sheet) };
    if (!works.has(draft.auditId)) {
      await chooseColumn(db, chosen);
      await read(chosen);
    }
    return c.redirect(urlOf(draft.auditId), 303);
  });

  app.post('/audits/:id/start', async (c) => {
    const id = parseId(c.req.param('id'));
    // A second click leads to the same check.
    if ((await getAudit(db, id)) !== null) return c.redirect(urlOf(id), 303);
    const draft = await draftIn(c);
    const { sellerId, name, reading } = draft;
    if (reading === null || works.has(id)) return c.redirect(urlOf(id), 303);
    const form = await readForm(c);
    if (reading.doubt !== null && form['yes'] !== 'yes') {
      throw new Problem(
        'This does not look like a list of purchase codes',
        'Go back and confirm that you want to check it anyway, or use another list.',
      );
    }
    const known = textIn(form['knownValid']);
    const knownValid =
      known === '' ? undefined : parseCode(known, config, 'The code you know is valid');
    const age = parseDuration(textIn(form['maxAge']));
    const options = {
      draftId: id,
      ...(knownValid === undefined ? {} : { knownValid }),
      ...('ms' in age ? { maxAge: age.ms } : {}),
    };
    const action = { action: 'start check', target: `${sellerId}: ${maskCode(name)}` };
    await work(id, (signal, onSaved) =>
      runAction(c, parts, action, async () => {
        const seller = sellerNamed(sellerId);
        await checkKey(seller, knownValid, signal);
        const list = await listOf(draft, signal);
        await enterLists(db, seller, [list], options, { signal, onSaved });
        await queues.addAudit(sellerId, id);
      }),
    );
    const isStarted = (await getAudit(db, id)) !== null;
    return c.redirect(`${urlOf(id)}${isStarted ? `?notice=${await queueNotice(db)}` : ''}`, 303);
  });

  /** @throws {Problem} (404) when this session has no such draft */
  async function draftIn(c: DashboardContext): Promise<Draft> {
    const draft = await readDraft(db, ownerOf(c), parseId(c.req.param('id') ?? ''));
    if (draft !== null) return draft;
    throw new Problem(
      'This list is no longer available',
      'A list belongs to the login that read it, and is deleted after an hour. If you started the check, find it under Check codes. Otherwise upload the list again.',
      404,
    );
  }

  function sellerNamed(name: unknown): SellerConfig {
    const seller = config.sellers.find((one) => one.name === name);
    if (seller !== undefined) return seller;
    throw new Problem('The list was not read', 'Choose the seller that the codes belong to.');
  }

  /**
   * Works on a draft, and records why that fails. Returns early when it takes long; the work goes on.
   * @param task must stop when its signal aborts: the draft was deleted or the dashboard stops
   */
  async function work(
    auditId: bigint,
    task: (signal: AbortSignal, onLines: (lines: number) => void) => Promise<void>,
  ): Promise<void> {
    const one: Work = { lines: 0, stopping: new AbortController() };
    works.set(auditId, one);
    const stopped = AbortSignal.any([uploads.ended, one.stopping.signal]);
    const signal = AbortSignal.any([stopped, AbortSignal.timeout(WORK_MS)]);
    const logged = (error: unknown): void =>
      log.error('dashboard: work on an uploaded list failed', { error });
    const done = task(signal, (lines) => (one.lines = lines))
      .catch(async (error: unknown) => {
        if (stopped.aborted) return;
        const known = error instanceof Problem || isUserError(error, 'FILE');
        if (!known) logged(error);
        await recordDraft(db, auditId, { problem: known ? inWords(error) : NO_RESPONSE });
      })
      .catch(logged)
      .finally(() => works.delete(auditId));
    await Promise.race([done, wait(WAIT_MS, undefined, { ref: false })]);
  }

  /** Reads a list as `codes check --dry-run` does. */
  function read(draft: Draft): Promise<void> {
    const { auditId, sellerId } = draft;
    return work(auditId, async (signal, onSaved) => {
      const seller = sellerNamed(sellerId);
      const { requestsPerMinute } = seller;
      const list = await listOf(draft, signal);
      const { blankLines, firstRejected, notes } = reportOf([list]);
      const known = await readKnownValid(db, sellerId, null, KNOWN_CODES_SAMPLE);
      const size = await measureLists(db, seller, [list], {}, { signal, onSaved });
      const skipped = blankLines === 0 ? [] : [`${plural(blankLines, 'blank line')} skipped.`];
      const reading = {
        sentences: [...list.layout.reasons, ...notes, ...skipped],
        columns: list.layout.columns,
        rejected: firstRejected,
        ...{ size, requestsPerMinute },
        cost: await costOf(db, seller, codesToCheck(size)),
        doubt: doubtOf(
          list,
          known.map(({ form }) => form),
        ),
        isValidCodeKnown: known.length > 0,
      };
      await recordDraft(db, auditId, { reading });
    });
  }

  function listOf({ auditId, name, column, sheet }: Draft, signal: AbortSignal): Promise<List> {
    return readList(() => readDraftContent(db, auditId), {
      ...{ name, signal },
      keys: config.sellers.map(({ key }) => key),
      ...(column === '' ? {} : { column }),
      ...(sheet === '' ? {} : { sheet }),
    });
  }

  /**
   * Checks the API key and the code that the user knows is valid, as `codes check` does before it enters a list. If the
   * marketplace can't be reached from here, the worker checks them.
   * @throws {Problem} when the key is refused or that code is denied
   */
  async function checkKey(
    seller: SellerConfig,
    knownValid: string | undefined,
    ended: AbortSignal,
  ) {
    const signal = AbortSignal.any([ended, AbortSignal.timeout(KEY_CHECK_MS)]);
    const fault = await parts
      .withMarketplace(seller, {}, ({ marketplace }) => verifyKey(marketplace, knownValid, signal))
      .catch((error: unknown) => {
        if (ended.aborted || !signal.aborted) throw error;
        return null;
      });
    if (fault === null || fault.isOutage) return;
    throw new Problem(capital(fault.message), `${capital(fault.remedy)}.`);
  }
}

function ownerOf(c: DashboardContext): DraftOwner {
  return tokenHash(c.get('token'));
}

/** The text of a field; empty without it. */
function textIn(field: unknown): string {
  return typeof field === 'string' ? field.trim() : '';
}

function urlOf(auditId: bigint): string {
  return `/audits/${auditId}`;
}

const NO_RESPONSE = {
  message: 'The database or the queue did not respond',
  remedy: 'Try again.',
};

/** Explains an error with the names of the form's fields. */
function inWords({ message, remedy }: Problem | UserError): Draft['problem'] {
  return {
    message: capital(message),
    remedy: remedy
      .replaceAll(
        /Leave --(column|sheet) out/g,
        (_, name: string) => `Leave the field ${capital(name)} empty`,
      )
      .replaceAll(/--(column|sheet)/g, (_, name: string) => `the field ${capital(name)}`),
  };
}
