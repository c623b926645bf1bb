import { isUserError, UserError } from '../../domain/user-error.js';
import { randomUUID } from 'node:crypto';
import type { FeedConfig } from '../../config/index.js';
import type { Db } from '../../db/db.js';
import { keepSums, knownTokens, proposeToken, readSums } from '../feeds-store.js';
import type { Content, HistoryLimit, ReportingView, Snapshot } from '../views.js';
import { compare, type Owner, type Plan, type Sums } from './plan.js';
import { type Changes, type Found, type Target } from './target.js';

/** What a feed delivers, by its configuration. */
export type FeedContent = Pick<
  FeedConfig,
  'name' | 'views' | 'sellers' | 'columns' | 'hash' | 'salt'
>;

/** The result of delivering one view. */
export interface ViewReport {
  readonly view: string;
  /** Rows that were written or deleted. */
  readonly rows: number;
  readonly ms: number;
  /** Why it was not delivered; null if it was. */
  readonly problem: { readonly message: string; readonly remedy: string } | null;
}

/** What a delivery would do. */
export interface ViewCheck {
  readonly view: string;
  readonly plan: string;
  readonly fits: boolean;
}

export interface DeliverOptions {
  readonly signal: AbortSignal;
  /** Whether to look for rows that people edited in the target. */
  readonly isFull: boolean;
  readonly onProgress?: (view: string, rows: number) => void;
}

/** The remedy for a view that does not exist. */
const LIST_VIEWS = '`seller-mirror export` lists the views';

/** One snapshot of the store, and the target that shall equal it. */
export class Delivery {
  #limits: readonly HistoryLimit[] | null = null;

  constructor(
    readonly db: Db,
    readonly snapshot: Snapshot,
    readonly views: readonly ReportingView[],
    readonly target: Target,
    readonly feed: FeedContent,
    readonly options: DeliverOptions,
  ) {}

  /**
   * Makes each view's table equal to the view. A view that can't be delivered is reported, and the others are
   * delivered.
   * @throws {UserError} if the target is unreachable; views delivered before stay
   */
  async run(): Promise<ViewReport[]> {
    const reports: ViewReport[] = [];
    for (const view of this.feed.views) {
      this.options.signal.throwIfAborted();
      const started = performance.now();
      const { result: rows, problem } = await attempt(0, () => this.#deliver(view));
      reports.push({ view, rows, ms: Math.round(performance.now() - started), problem });
    }
    return reports;
  }

  /** Finds what a delivery would do. Writes nothing. @throws {UserError} */
  async check(): Promise<{ readonly server: string; readonly views: readonly ViewCheck[] }> {
    const server = await this.target.describe();
    const views: ViewCheck[] = [];
    for (const view of this.feed.views) {
      const { result: plan, problem } = await attempt('', () => this.#check(view));
      const text = problem === null ? plan : `${problem.message}: ${problem.remedy}`;
      views.push({ view, plan: text, fits: problem === null });
    }
    return { server, views };
  }

  /**
   * Makes this store the owner of the feed's tables.
   * @returns the views that another store has filled
   * @throws {UserError}
   */
  async takeOver(): Promise<string[]> {
    const taken: string[] = [];
    for (const view of this.feed.views) {
      const { owners } = await this.target.find(await this.contentOf(view));
      if ((await this.#strangers(view, owners)).length === 0) continue;
      await this.#own(view, owners);
      taken.push(view);
    }
    return taken;
  }

  async #deliver(view: string): Promise<number> {
    const { db, target, feed } = this;
    const content = await this.contentOf(view);
    const found = await target.find(content);
    const owner = await this.#ownerOf(view, found);
    await target.prepare(content, found);
    const from = owner?.token ?? (await this.#own(view, []));
    const plan = found.isEmpty ? 'all' : await this.#compare(content, found, owner);
    const to = randomUUID();
    await proposeToken(db, feed.name, view, { held: from, next: to });
    return target.write(content, this.#changes(content, plan), { from, to });
  }

  async #check(view: string): Promise<string> {
    const content = await this.contentOf(view);
    const found = await this.target.find(content);
    const owner = await this.#ownerOf(view, found);
    if (!found.isReady) return found.plan ?? 'would write the first file';
    const plan = await this.#compare(content, found, owner);
    return [found.plan ?? 'the table fits', planText(plan)].join('; ');
  }

  /** @returns null if nobody owns the table yet @throws {UserError} if another store does */
  async #ownerOf(view: string, { owners }: Found): Promise<Owner | null> {
    const [stranger] = await this.#strangers(view, owners);
    if (stranger === undefined) return owners[0] ?? null;
    const at = stranger.deliveredAt.getTime();
    const when = at === 0 ? '' : `, last at ${stranger.deliveredAt.toISOString()}`;
    throw new UserError(
      `another store, or a later state of this one, fills ${view} there${when}`,
      `stop its feed, then \`seller-mirror feed take-over ${this.feed.name}\``,
      'VIEW',
    );
  }

  /** The owners of a table that are not this store. */
  async #strangers(view: string, owners: readonly Owner[]): Promise<Owner[]> {
    const known = await knownTokens(this.db, view);
    return owners.filter(({ token }) => !known.has(token));
  }

  /** Records this store as the owner, first here and then in the target. @returns the token */
  async #own(view: string, replaced: readonly Owner[]): Promise<string> {
    const token = randomUUID();
    await proposeToken(this.db, this.feed.name, view, { held: null, next: token });
    await this.target.own(view, token, replaced);
    return token;
  }

  #compare(content: Content, { isReady }: Found, owner: Owner | null): Promise<Plan> {
    const { snapshot, target } = this;
    const isComplete = isReady && owner !== null && owner.deliveredAt.getTime() > 0;
    const isFull = this.options.isFull || !isComplete;
    return compare(
      {
        sums: async (within) =>
          within === null ? this.#sums(content) : (await snapshot.sums(content, within)).sums,
      },
      { sums: (within) => target.sums(content, isFull, within) },
      content.number,
    );
  }

  /** The sums of the view, as kept from an earlier delivery if nothing has changed since. */
  async #sums(content: Content): Promise<Sums> {
    const { db, snapshot, feed } = this;
    const state = await snapshot.stateOf(content);
    const kept = state === null ? null : await readSums(db, feed.name, content.view, state);
    if (kept !== null) return kept;
    const found = await snapshot.sums(content, null);
    if (state !== null) await keepSums(db, feed.name, content.view, state, found);
    return found.sums;
  }

  #changes(content: Content, plan: Plan): Changes | null {
    if (plan === 'same') return null;
    const { snapshot, target, options } = this;
    const onRows = (rows: number): void => options.onProgress?.(content.view, rows);
    return {
      replaced: plan,
      lines: (consume) =>
        snapshot.lines(content, plan, target.valueSql, (lines) => consume(counted(lines, onRows))),
    };
  }

  /** What the feed delivers of a view. @throws {UserError} */
  async contentOf(name: string): Promise<Content> {
    const { sellers, columns: chosen, hash } = this.feed;
    const view = this.views.find((one) => one.name === name);
    if (view === undefined) throw new UserError(`there is no view ${name}`, LIST_VIEWS, 'VIEW');
    const names = view.columns.map((column) => column.name);
    const wanted = chosen[name] ?? names;
    const hashed = hash[name] ?? [];
    const unknown = [...wanted, ...hashed].filter((column) => !names.includes(column));
    if (unknown.length > 0) {
      throw new UserError(
        `view ${name} has no column ${unknown.join(', ')}`,
        `correct the feed; the view has ${names.join(', ')}`,
        'VIEW',
      );
    }
    const needed = new Set([...wanted, ...(view.key ?? [])]);
    if (view.endedAt !== null) needed.add(view.endedAt);
    if (view.bySeller) needed.add('seller_id');
    const columns = view.columns.filter((column) => needed.has(column.name));
    const numbers = columns.filter(({ type }) => /int/.test(type)).map((column) => column.name);
    // A file is written whole, with the states that the store has.
    const { isWhole } = this.target;
    const key = isWhole ? null : view.key;
    const endedAt = isWhole ? null : view.endedAt;
    this.#limits ??= await this.snapshot.historyLimits();
    return {
      view: name,
      columns: columns.map((one) => (hashed.includes(one.name) ? { ...one, type: 'text' } : one)),
      sellers: view.bySeller ? sellers : null,
      hashed,
      key,
      number: key?.find((column) => numbers.includes(column)) ?? null,
      order: view.key ?? [],
      endedAt,
      limits: endedAt === null ? [] : this.#limits,
    };
  }
}

/** Runs the work on one view. @returns its problem, if only this view has one */
async function attempt<T>(nothing: T, work: () => Promise<T>) {
  try {
    return { result: await work(), problem: null };
  } catch (error) {
    if (!isUserError(error, 'VIEW')) throw error;
    const { message, remedy } = error;
    return { result: nothing, problem: { message, remedy } };
  }
}

function planText(plan: Plan): string {
  if (plan === 'same') return 'nothing differs';
  return plan === 'all' ? 'would write all rows' : `differs in up to ${plan.rows} rows`;
}

/** Passes lines on, and reports how many came. */
async function* counted(
  lines: AsyncIterable<Buffer>,
  onRows: (rows: number) => void,
): AsyncGenerator<Buffer> {
  let rows = 0;
  for await (const chunk of lines) {
    yield chunk;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) rows += 1;
    onRows(rows);
  }
}
