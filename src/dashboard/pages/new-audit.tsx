import { rm } from 'node:fs/promises';
import type { SellerConfig } from '../../config/index.js';
import { checkCost } from '../../codes/progress.js';
import { parseDuration } from '../../domain/moment.js';
import { maskCode } from '../../domain/secret.js';
import { doubtOf } from '../../codes/lists/columns.js';
import { openFile, readBytes } from '../../codes/lists/source.js';
import { readList } from '../../codes/lists/read-list.js';
import type { List } from '../../codes/lists/types.js';
import { FileError } from '../../listing/file-error.js';
import {
  verifyKey,
  type KeyFault,
  enterLists,
  measureLists,
  codesToCheck,
  reportOf,
  type AuditOptions,
} from '../../codes/enter-list.js';
import {
  type Dashboard,
  type DashboardParts,
  isOperator,
  Problem,
  queueNotice,
  runAction,
} from '../context.js';
import { Drafts } from '../drafts.js';
import { capital } from '../format.js';
import { expiredForm, page } from '../layout.js';
import { Empty } from '../parts.js';
import { parseCode } from '../query.js';
import { isFormToken } from '../security.js';
import { readFoundEver, readKnownValid } from '../../codes/situation-store.js';
import {
  draftPage,
  draftUrl,
  type ListDraft,
  type ListFacts,
  ListForm,
  NO_CODES,
  waitingPage,
} from './new-audit-views.js';

/** How many known codes are read to learn what a seller's codes look like. */
const KNOWN_CODES_SAMPLE = 200;
/** Longest wait for the check of the API key (ms). */
const KEY_CHECK_MS = 15_000;
/** Longest time for reading a list into the store (ms). */
const READ_MS = 10 * 60_000;

const NO_ANSWER: KeyFault = { message: '', remedy: '', isOutage: true };

/** `/audits/new`: upload a list, see what was read, start the audit. */
export function addNewAudit(app: Dashboard, parts: DashboardParts): void {
  const { db, config, queues } = parts;
  const drafts = new Drafts<ListDraft['list'], ListFacts>(parts.uploads);

  app.get('/audits/new', (c) => {
    const token = c.get('token');
    if (!isOperator(c)) {
      return page(c, { title: 'Check codes' }, <Empty>Only operators can start checks.</Empty>);
    }
    const id = c.req.query('draft');
    if (id !== undefined) {
      const draft = drafts.get(token, id);
      const { linesDone, startedAs } = draft;
      if (startedAs !== null) return c.redirect(startedAs, 303);
      if (linesDone !== null) return waitingPage(c, draft, linesDone);
      return draftPage(c, draft, factsOf(draft));
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
          No seller is configured for this dashboard. See <code>npx seller-mirror config</code>.
        </Empty>
      ) : (
        <ListForm token={token} sellers={config.sellers.map(({ name }) => name)} />
      ),
    );
  });

  app.post('/audits/new', async (c) => {
    const contentType = c.req.header('content-type') ?? '';
    if (!contentType.startsWith('multipart/form-data')) {
      throw new Problem('No list was sent', 'Use the form on this page.');
    }
    const token = c.get('token');
    const upload = await drafts.receive(contentType, c.req.raw.body, (fields) =>
      isFormToken(c, fields.get('token')),
    );
    if (upload === null) return expiredForm(c);
    const { fields, name, path } = upload;
    const draft = drafts.add(token, path, {
      name,
      seller: fields.get('seller') ?? '',
      column: fields.get('column')?.trim() || null,
      sheet: fields.get('sheet')?.trim() || null,
    });
    await drafts.work(draft, async (signal, onLines) => {
      try {
        draft.facts = await readFacts(draft, signal, onLines);
      } catch (error) {
        await rm(path, { force: true });
        throw asProblem(error);
      }
    });
    if (draft.problem !== null) throw draft.problem;
    return c.redirect(draftUrl(draft), 303);
  });

  app.post('/audits/start', async (c) => {
    const form = await c.req.parseBody();
    const draft = drafts.get(c.get('token'), form['draft']);
    const { list } = draft;
    // A second click leads to the same audit.
    if (draft.startedAs !== null) return c.redirect(draft.startedAs, 303);
    if (draft.linesDone !== null) return c.redirect(draftUrl(draft), 303);
    const facts = factsOf(draft);
    const knownValid = knownValidOf(form['knownValid']);
    const action = { action: 'start check', target: `${list.seller}: ${maskCode(list.name)}` };
    await drafts.work(draft, (signal, onLines) =>
      runAction(c, parts, action, async () => {
        if (facts.doubt !== null && form['yes'] !== 'yes') {
          throw new Problem(
            'This does not look like a list of purchase codes',
            'Go back and confirm that you want to check it anyway, or use another list.',
          );
        }
        if (codesToCheck(facts.size) === 0)
          throw new Problem('There is nothing to check', NO_CODES);
        const age = parseDuration(typeof form['maxAge'] === 'string' ? form['maxAge'] : '');
        const options = {
          ...(knownValid === null ? {} : { knownValid }),
          ...('ms' in age ? { maxAge: age.ms } : {}),
        };
        try {
          const isKeyChecked = await checkKey(sellerOf(draft), knownValid, signal);
          const auditId = await startAudit(draft, options, signal, onLines);
          const queued = await queueNotice(db);
          const notice = queued === 'queued' && !isKeyChecked ? 'key-untried' : queued;
          draft.startedAs = `/audits/${auditId}?notice=${notice}`;
          await rm(draft.path, { force: true });
        } catch (error) {
          throw asProblem(error);
        }
      }),
    );
    if (draft.problem !== null) throw draft.problem;
    return c.redirect(draft.startedAs ?? draftUrl(draft), 303);
  });

  app.post('/audits/discard', async (c) => {
    const { draft } = await c.req.parseBody();
    await drafts.drop(drafts.get(c.get('token'), draft));
    return c.redirect('/audits/new', 303);
  });

  function sellerOf({ list }: ListDraft): SellerConfig {
    const seller = config.sellers.find(({ name }) => name === list.seller);
    if (seller !== undefined) return seller;
    throw new Problem('The list was not read', 'Choose the seller that the codes belong to.');
  }

  function knownValidOf(input: unknown): string | null {
    if (typeof input !== 'string' || input.trim() === '') return null;
    return parseCode(input, config, 'The code you know is valid');
  }

  /**
   * Checks the API key and the code that the user knows is valid, as `codes check` does before it enters a list. If the marketplace
   * can't be reached from here, the worker checks them.
   * @returns whether they were checked
   * @throws {Problem} when the key is refused or that code is denied
   */
  async function checkKey(
    seller: SellerConfig,
    knownValid: string | null,
    ended: AbortSignal,
  ): Promise<boolean> {
    const signal = AbortSignal.any([ended, AbortSignal.timeout(KEY_CHECK_MS)]);
    const fault = await parts
      .withMarketplace(seller, {}, ({ marketplace }) =>
        verifyKey(marketplace, knownValid ?? undefined, signal),
      )
      .catch((error: unknown) => {
        ended.throwIfAborted();
        if (signal.aborted) return NO_ANSWER;
        throw error;
      });
    if (fault === null) return true;
    if (fault.isOutage) return false;
    throw new Problem(capital(fault.message), `${capital(fault.remedy)}.`);
  }

  /** Reads the uploaded file. */
  async function readDraft(draft: ListDraft, signal: AbortSignal): Promise<List> {
    const { name, column, sheet } = draft.list;
    const { bytes } = await openFile(draft.path, signal);
    return readList(await readBytes(bytes), {
      name,
      signal,
      keys: config.sellers.map(({ key }) => key),
      ...(column === null ? {} : { column }),
      ...(sheet === null ? {} : { sheet }),
    });
  }

  const untilReadEnds = (ended: AbortSignal): AbortSignal =>
    AbortSignal.any([ended, AbortSignal.timeout(READ_MS)]);

  /** Reads a list as `codes check --dry-run` does. */
  async function readFacts(
    draft: ListDraft,
    ended: AbortSignal,
    onSaved: (lines: number) => void,
  ): Promise<ListFacts> {
    const seller = sellerOf(draft);
    const { requestsPerMinute } = seller;
    const signal = untilReadEnds(ended);
    const list = await readDraft(draft, signal);
    const sample = await readKnownValid(db, seller.name, null, KNOWN_CODES_SAMPLE);
    const known = sample.map(({ form }) => form);
    const foundEver = await readFoundEver(db, seller.name);
    const size = await measureLists(db, seller, [list], {}, { signal, onSaved });
    return {
      reasons: list.layout.reasons,
      report: reportOf([list]),
      size,
      requestsPerMinute,
      cost: checkCost(
        { toCheck: codesToCheck(size), requestsPerMinute, foundEver },
        db.clock.now(),
      ),
      doubt: doubtOf(list, known),
      isValidCodeKnown: known.length > 0,
    };
  }

  async function startAudit(
    draft: ListDraft,
    options: AuditOptions,
    ended: AbortSignal,
    onSaved: (lines: number) => void,
  ): Promise<bigint> {
    const seller = sellerOf(draft);
    const signal = untilReadEnds(ended);
    const list = await readDraft(draft, signal);
    const { auditId } = await enterLists(db, seller, [list], options, { signal, onSaved });
    await queues.addAudit(seller.name, auditId);
    return auditId;
  }
}

/** @throws why the list could not be read */
function factsOf({ facts, problem }: ListDraft): ListFacts {
  if (facts !== null) return facts;
  throw problem ?? new Error('the list was not read');
}

/** Turns an error about the list into one that names the form's fields; returns others unchanged. */
function asProblem(error: unknown): unknown {
  if (!(error instanceof FileError)) return error;
  const remedy = error.remedy
    .replaceAll('Leave --column out', 'Leave the field Column empty')
    .replaceAll('Leave --sheet out', 'Leave the field Sheet empty')
    .replaceAll('--column', 'the field Column')
    .replaceAll('--sheet', 'the field Sheet');
  return new Problem(capital(error.message), remedy);
}
