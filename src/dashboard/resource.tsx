import { hostname } from 'node:os';
import type { Child, FC } from 'hono/jsx';
import { isUserError, UserError } from '../domain/user-error.js';
import type { Action, Actor, Confirmation, Part, Resource } from '../listing/resource.js';
import { followUp } from '../service/follow-up.js';
import { StepChart } from './charts.js';
import {
  type Dashboard,
  type DashboardContext,
  type DashboardParts,
  enqueueSync,
  isOperator,
  Problem,
  queueNotice,
  runAction,
} from './context.js';
import { capital, printable } from './format.js';
import { page } from './layout.js';
import { addListing, Cell, factsOf, type ListingParts, ListingTable, shownTo } from './listing.js';
import {
  ActionButton,
  ChartWithTable,
  Facts,
  Figures,
  Section,
  Sentence,
  State,
  Token,
} from './parts.js';
import { pageBefore, parseId } from './query.js';

/** Rows of a part; the rest is on a page of its own. */
const MAX_ROWS = 200;
const MAX_NOTE = 300;

/** What was typed before, if it was wrong. */
interface Typed {
  readonly action: string;
  readonly wrong: string;
  readonly note: string;
}

/** Serves a resource: its list and files, the page of each, and the actions as forms. */
export function addResource<Row, Found, Source>(
  app: Dashboard,
  parts: DashboardParts,
  resource: Resource<Row, Found, Source>,
  source: Source,
  more: ListingParts<Row> = {},
): void {
  const { listing, one, ids, record, actions } = resource;
  const { name } = listing;
  const { db } = parts;
  const path = ids === 'number of a seller' ? `/${name}/:seller/:id` : `/${name}/:id`;

  const foundIn = async (c: DashboardContext): Promise<Found> => {
    const text = c.req.param('id') ?? '';
    const id = ids === 'name' ? text : String(parseId(text));
    const seller = c.req.param('seller') ?? null;
    const [found] = await resource.find(source, id, seller);
    if (found !== undefined) return found;
    const [title, remedy] = (await resource.whyNone?.(source, id, seller)) ?? [
      `${capital(one)} not found`,
      `The ${capital(name)} page lists all ${name}.`,
    ];
    throw new Problem(title, remedy, 404);
  };

  /** Buttons beside a row, if the list says all: then its rows are what is found. */
  const buttonsOf = (c: DashboardContext, row: Row): Child =>
    actions
      .filter((action) => action.isPossible(row as unknown as Found, c.get('session').who))
      .map(({ name: action, label }) => {
        const id = encodeURIComponent(String(listing.columns[0]?.value(row)));
        return (
          <ActionButton action={`/${name}/${id}/${action}`} token={c.get('token')}>
            {label}
          </ActionButton>
        );
      });
  const buttons = record === undefined && actions.length > 0 ? { buttonsOf } : {};
  addListing(app, parts, listing, source, { ...buttons, ...more });

  const show = async (c: DashboardContext, found: Found, typed: Typed | null) => {
    if (record === undefined) return c.notFound();
    const ownPath = new URL(c.req.url).pathname.replace(typed === null ? '' : /\/[^/]*$/, '');
    const possible = isOperator(c)
      ? actions.filter((action) => action.isPossible(found, c.get('session').who))
      : [];
    const isForm = (action: Action<Found, Source>): boolean =>
      action.hint !== undefined ||
      action.takesNote === true ||
      (action.confirm?.(found) ?? null) !== null;
    const formOf = (action: Action<Found, Source>) => (
      <ActionForm
        path={`${ownPath}/${action.name}`}
        action={action}
        confirm={action.confirm?.(found) ?? null}
        token={c.get('token')}
        typed={typed?.action === action.name ? typed : null}
      />
    );
    const figures = shownTo(c, record.figures).filter(
      ({ value }) => !/^(?:0|null)$/.test(String(value(found))),
    );
    const sections = await Promise.all(
      record.parts.map(async (part) => ({
        isChart: part.steps !== undefined,
        section: await partOf(c, source, found, part),
      })),
    );
    const facts = shownTo(c, record.facts).filter(({ value }) => value(found) !== null);
    return page(
      c,
      {
        title: printable(record.title(found)),
        status: typed === null ? 200 : 422,
        lead: shownTo(c, record.head)
          .map(({ value, type }) => ({ of: value(found), type }))
          .filter(({ of }) => of !== null)
          .map(({ of, type }, n) => (
            <>
              {n === 0 ? '' : ' · '}
              {type === 'state' ? <State of={String(of)} /> : <Cell of={of} type={type} />}
            </>
          )),
        actions: possible
          .filter((action) => !isForm(action))
          .map(({ name: action, label }) => (
            <ActionButton action={`${ownPath}/${action}`} token={c.get('token')}>
              {label}
            </ActionButton>
          )),
      },
      <>
        {record.notices(found).map(({ tone, text, onPage }) => (
          <p class={`notice ${tone}`}>
            <Sentence text={capital(/[.!?]$/.test(text) ? text : `${text}.`)} />
            {onPage === undefined
              ? null
              : ` ${isOperator(c) ? 'You' : 'An operator'} can ${onPage}.`}
          </p>
        ))}
        {possible.filter((action) => isForm(action) && action.isLast !== true).map(formOf)}
        {figures.length === 0 ? null : (
          <Figures of={factsOf(figures, found).map(([label, value]) => ({ label, value }))} />
        )}
        {sections.map(({ isChart, section }) => (isChart ? section : null))}
        <Facts of={factsOf(facts, found)} />
        {sections.map(({ isChart, section }) => (isChart ? null : section))}
        {possible
          .filter(({ isLast }) => isLast === true)
          .map((action) => (
            <details open={typed?.action === action.name}>
              <summary>{action.label}</summary>
              {formOf(action)}
            </details>
          ))}
      </>,
    );
  };
  if (record !== undefined) app.get(path, async (c) => show(c, await foundIn(c), null));

  for (const action of actions) {
    app.post(`${path}/${action.name}`, async (c) => {
      const found = await foundIn(c);
      const target = `${one} ${c.req.param('id')}`;
      const { note: reason, ...fields } = await c.req.parseBody();
      const note = typeof reason === 'string' ? reason.trim().slice(0, MAX_NOTE) : '';
      const confirm = action.confirm?.(found) ?? null;
      if (confirm !== null && answerIn(fields[confirm.field]) !== confirm.answer) {
        return show(c, found, { action: action.name, wrong: confirm.wrong, note });
      }
      const { who } = c.get('session');
      const done = await runAction(
        c,
        parts,
        { action: action.logged ?? action.label.toLowerCase(), target },
        async () => {
          if (action.isPossible(found, who)) {
            return explained(action.perform(actorOf(c, parts, source), found, note));
          }
          const remedy = 'Look at the page again; somebody may have done it already.';
          throw new Problem(`${capital(target)}: “${action.label}” is not possible`, remedy, 409);
        },
      );
      const notice = done.notice === 'queued' ? await queueNotice(db) : done.notice;
      const own = c.req.path.slice(0, -`/${action.name}`.length);
      const next = done.path ?? (record === undefined ? pageBefore(c) : own);
      return c.redirect(`${next}${next.includes('?') ? '&' : '?'}notice=${notice}`, 303);
    });
  }
}

/** Who acts on this request. */
function actorOf<Source>(
  c: DashboardContext,
  parts: DashboardParts,
  source: Source,
): Actor<Source> {
  const { queues, log } = parts;
  const { who } = c.get('session');
  return {
    source,
    who,
    holder: `dashboard (${who}, on ${hostname()})`,
    ask: (seller, wanted) => enqueueSync(c, parts, seller, wanted),
    followUp: () => followUp(parts, queues, true, log),
  };
}

/** Turns what a person can mend into a page with its remedy. */
async function explained<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    if (isUserError(error, 'BUSY')) {
      throw new Problem(capital(error.message), 'Try again when that run has finished.', 409);
    }
    if (error instanceof UserError && !(error instanceof Problem)) {
      throw new Problem(capital(error.message), `${capital(error.remedy)}.`, 409);
    }
    throw error;
  });
}

/** What was typed; of a number without its thousands separators. */
function answerIn(text: unknown): string {
  const typed = typeof text === 'string' ? text.trim() : '';
  return /^\d{1,3}(?:[\s,.]\d{3})+$/.test(typed) ? typed.replaceAll(/\D/g, '') : typed;
}

/** An action that wants an answer or a note. */
const ActionForm: FC<{
  path: string;
  action: Pick<Action<never, never>, 'label' | 'takesNote' | 'hint'>;
  confirm: Confirmation | null;
  token: string;
  typed: Typed | null;
}> = ({ path, action: { label, takesNote, hint }, confirm, token, typed }) => (
  <form class="form" method="post" action={path}>
    <Token value={token} />
    {/* The form's default button: Enter in a field must not change anything. */}
    <button disabled hidden>
      {label}
    </button>
    {hint === undefined ? null : <p class="muted">{hint}</p>}
    {typed === null ? null : <p class="notice bad">{typed.wrong}</p>}
    {confirm === null ? null : (
      <label>
        {confirm.ask}
        <input name={confirm.field} autocomplete="off" />
      </label>
    )}
    {takesNote === true ? (
      <label>
        Note
        <input
          name="note"
          maxlength={MAX_NOTE}
          value={typed?.note ?? ''}
          placeholder="Optional: why"
        />
      </label>
    ) : null}
    <div class="actions">
      <button class={confirm === null ? undefined : 'danger'}>{label}</button>
    </div>
  </form>
);

async function partOf<Found, Source>(
  c: DashboardContext,
  source: Source,
  found: Found,
  part: Part<Found, Source>,
): Promise<Child> {
  const { title, note, none, all, steps } = part;
  const rows = await part.rows(source, found, MAX_ROWS);
  if (rows.length === 0 && none === undefined) return null;
  const table = (
    <ListingTable
      listing={{ name: title, none: none ?? '', columns: shownTo(c, part.columns) }}
      rows={rows.slice(0, MAX_ROWS)}
    />
  );
  const points = rows.flatMap((row) => steps?.point(row) ?? []);
  return (
    <Section
      title={title}
      note={rows.length >= MAX_ROWS ? `first ${MAX_ROWS}` : note}
      actions={
        all === undefined || rows.length === 0 ? undefined : <a href={all(found)}>Show all</a>
      }
    >
      {steps === undefined || points.length === 0 ? (
        table
      ) : (
        <ChartWithTable
          chart={
            <StepChart
              label={
                title.endsWith('over time') || title.includes('hour') ? title : `${title} over time`
              }
              points={points}
              unit={steps.unit(found)}
            />
          }
          table={table}
        />
      )}
    </Section>
  );
}
