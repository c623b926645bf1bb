import { randomUUID } from 'node:crypto';
import type { FeedConfig } from '../../config/index.js';
import type { Db } from '../../db/db.js';
import { confirmToken, keepSums, proposeToken, readSums, readTokens } from '../feeds-store.js';
import type { HistoryLimit, ReportingView, Snapshot } from '../views.js';
import {
  compare,
  ownership,
  union,
  type Owner,
  type Plan,
  type Side,
  type Tokens,
} from './plan.js';
import {
  ViewProblem,
  type Changes,
  type Description,
  type Found,
  type Scope,
  type Shape,
  type Target,
} from './target.js';

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
   * @throws {TargetError} if the target is unreachable; views delivered before stay
   */
  async run(): Promise<ViewReport[]> {
    const reports: ViewReport[] = [];
    for (const view of this.feed.views) {
      this.options.signal.throwIfAborted();
      const started = performance.now();
      const { result: rows, problem } = await attempt(0, () => this.#deliver(view));
      reports.push({ view, rows, ms: Math.round(performance.now() - started), problem });
    }
    if (reports.every(({ problem }) => problem === null)) await this.target.tidy();
    return reports;
  }

  /** Finds what a delivery would do. Writes nothing. @throws {TargetError} */
  async check(): Promise<Description & { readonly views: readonly ViewCheck[] }> {
    const described = await this.target.describe();
    const views: ViewCheck[] = [];
    for (const view of this.feed.views) {
      const { result: plan, problem } = await attempt('', () => this.#check(view, described));
      const text = problem === null ? plan : `${problem.message}: ${problem.remedy}`;
      views.push({ view, plan: text, fits: problem === null });
    }
    return { ...described, views };
  }

  /**
   * Makes this store the owner of the feed's tables.
   * @returns for each view, who owned it before; empty: nobody, or this store
   * @throws {TargetError}
   */
  async takeOver(): Promise<{ readonly view: string; readonly from: readonly Owner[] }[]> {
    const done: { view: string; from: readonly Owner[] }[] = [];
    for (const view of this.feed.views) {
      const shape = this.shapeOf(view);
      const { owners } = await this.target.find(shape);
      const known = ownership(owners, await this.#tokens(view), shape.sellers);
      if (known.kind === 'taken') await this.#own(shape, known.owners);
      done.push({ view, from: known.kind === 'taken' ? known.owners : [] });
    }
    return done;
  }

  async #deliver(view: string): Promise<number> {
    const { db, target, feed } = this;
    const shape = this.shapeOf(view);
    const found = await target.find(shape);
    const known = await this.#ownerOf(shape, found);
    await target.prepare(shape, found);
    const owner = known ?? (await this.#own(shape, []));
    const scope = await this.#scope(shape, found, owner);
    const plan: Plan = found.isEmpty ? { kind: 'all' } : await this.#compare(shape, scope);
    const token = { from: owner.token, to: randomUUID() };
    await proposeToken(db, feed.name, view, { held: token.from, next: token.to });
    const rows = await target.write(shape, scope, this.#changes(shape, scope, plan), token);
    await confirmToken(db, feed.name, view, token.to);
    return rows;
  }

  async #check(view: string, { canCreate }: Description): Promise<string> {
    if (!canCreate) {
      throw new ViewProblem(
        'this user has no right to create tables, also temporary ones',
        'grant it',
      );
    }
    const shape = this.shapeOf(view);
    const found = await this.target.find(shape);
    const owner = await this.#ownerOf(shape, found);
    if (!found.isReady) return found.plan ?? 'would write the first file';
    const plan = await this.#compare(shape, await this.#scope(shape, found, owner));
    return [found.plan ?? 'the table fits', planText(plan)].join('; ');
  }

  /** @returns null if nobody owns the table yet @throws {ViewProblem} if another store does */
  async #ownerOf({ view, sellers }: Shape, { owners }: Found): Promise<Owner | null> {
    const known = ownership(owners, await this.#tokens(view), sellers);
    if (known.kind === 'free') return null;
    if (known.kind === 'ours') return known.owner;
    const at = Math.max(0, known.owners[0]?.deliveredAt.getTime() ?? 0);
    const when = at === 0 ? '' : `, last at ${new Date(at).toISOString()}`;
    throw new ViewProblem(
      `another store, or a later state of this one, fills ${view} there${when}`,
      `stop its feed, then \`seller-mirror feed take-over ${this.feed.name}\``,
    );
  }

  #tokens(view: string): Promise<Tokens> {
    return readTokens(this.db, this.feed.name, view);
  }

  /** Records this store as the owner, in two steps, of all that the replaced owners have filled. */
  async #own(shape: Shape, replaced: readonly Owner[]): Promise<Owner> {
    const { db, target, feed } = this;
    const token = randomUUID();
    const { sellers } = replaced.reduce(
      (all, one) => ({ sellers: union(all.sellers, one.sellers) }),
      { sellers: shape.sellers },
    );
    await proposeToken(db, feed.name, shape.view, { held: null, next: token });
    await target.own(
      { ...shape, sellers },
      token,
      replaced.map((owner) => owner.token),
    );
    await confirmToken(db, feed.name, shape.view, token);
    return { token, sellers, deliveredAt: new Date(0) };
  }

  /** The rows to compare: also those of sellers that the feed had when it last delivered. */
  async #scope({ sellers }: Shape, { isReady }: Found, owner: Owner | null): Promise<Scope> {
    this.#limits ??= await this.snapshot.historyLimits();
    const isComplete = isReady && owner !== null && owner.deliveredAt.getTime() > 0;
    return {
      sellers: owner === null ? sellers : union(owner.sellers, sellers),
      limits: this.#limits,
      isFull: this.options.isFull || !isComplete,
    };
  }

  #compare(shape: Shape, scope: Scope): Promise<Plan> {
    const { snapshot, target } = this;
    const source: Side = {
      sums: () => this.#sourceSums(shape, scope),
      keys: (buckets) => snapshot.keys(shape, scope.limits, buckets),
    };
    return compare(
      source,
      {
        sums: () => target.sums(shape, scope),
        keys: (buckets) => target.keys(shape, scope, buckets),
      },
      shape.key !== null,
    );
  }

  /** The sums of the view, as kept from an earlier delivery if nothing has changed since. */
  async #sourceSums(shape: Shape, { limits }: Scope) {
    const { db, snapshot, feed } = this;
    const state = await snapshot.stateOf(shape, limits, feed.salt?.reveal() ?? null);
    const kept = state === null ? null : await readSums(db, feed.name, shape.view, state);
    if (kept !== null) return kept;
    const sums = await snapshot.sums(shape, limits);
    if (state !== null) await keepSums(db, feed.name, shape.view, state, sums);
    return sums;
  }

  #changes(shape: Shape, { limits }: Scope, plan: Plan): Changes | null {
    if (plan.kind === 'same') return null;
    const { snapshot, target, options } = this;
    const wanted = plan.kind === 'all' ? 'all' : plan.write;
    return {
      remove: plan.kind === 'all' ? 'unlisted' : plan.remove,
      async lines(consume) {
        const onRows = (rows: number): void => options.onProgress?.(shape.view, rows);
        const outcome = await snapshot.lines(shape, limits, wanted, target.valueSql, (lines) =>
          consume(counted(lines, onRows)).then(
            (result) => ({ result }),
            (error: unknown) => {
              // The other views need the snapshot, which an error would end.
              if (!(error instanceof ViewProblem)) throw error;
              return { problem: error };
            },
          ),
        );
        if ('problem' in outcome) throw outcome.problem;
        return outcome.result;
      },
    };
  }

  /** What the feed delivers of a view. @throws {ViewProblem} */
  shapeOf(name: string): Shape {
    const { sellers, columns: chosen, hash } = this.feed;
    const view = this.views.find((one) => one.name === name);
    if (view === undefined) throw new ViewProblem(`there is no view ${name}`, LIST_VIEWS);
    const names = view.columns.map((column) => column.name);
    const wanted = chosen[name] ?? names;
    const hashed = hash[name] ?? [];
    const unknown = [...wanted, ...hashed].filter((column) => !names.includes(column));
    if (unknown.length > 0) {
      throw new ViewProblem(
        `view ${name} has no column ${unknown.join(', ')}`,
        `correct the feed; the view has ${names.join(', ')}`,
      );
    }
    const needed = new Set([...wanted, ...(view.key ?? [])]);
    if (view.endedAt !== null) needed.add(view.endedAt);
    if (view.bySeller) needed.add('seller_id');
    const columns = view.columns.filter((column) => needed.has(column.name));
    return {
      view: name,
      columns: columns.map((one) => (hashed.includes(one.name) ? { ...one, type: 'text' } : one)),
      sellers: view.bySeller ? sellers : null,
      hashed,
      key: this.target.isWhole ? null : view.key,
      order: view.key ?? [],
      // A file is written whole, with the states that the store has.
      endedAt: this.target.isWhole ? null : view.endedAt,
      indexed: INDEXED.filter((column) => view.key !== null && needed.has(column)),
    };
  }
}

/** Columns that reports often filter by. */
const INDEXED = ['purchased_at', 'happened_at', 'valid_from', 'changed_at'];

/** Runs the work on one view. @returns its problem, if only this view has one */
async function attempt<T>(nothing: T, work: () => Promise<T>) {
  try {
    return { result: await work(), problem: null };
  } catch (error) {
    if (!(error instanceof ViewProblem)) throw error;
    const { message, remedy } = error;
    return { result: nothing, problem: { message, remedy } };
  }
}

function planText(plan: Plan): string {
  if (plan.kind === 'same') return 'nothing differs';
  if (plan.kind === 'all') return 'would write all rows';
  return `would write ${plan.write.length} rows and delete ${plan.remove.length}`;
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
