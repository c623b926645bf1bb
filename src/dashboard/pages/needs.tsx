import type { FC } from 'hono/jsx';
import type { Need } from '../../service/needs.js';
import { type DashboardContext, isOperator, listName } from '../context.js';
import { capital } from '../format.js';
import { count } from '../../domain/text.js';
import { ActionButton, Ago, Card, Empty, Section, Sentence, Untrusted } from '../parts.js';

/** Cards on the overview; the rest is only counted. */
const MAX_CARDS = 12;

/** What needs the user, the most urgent first. */
export const NeedsYou: FC<{ needs: readonly Need[]; c: DashboardContext }> = ({ needs, c }) => (
  <Section title="Needs you">
    {needs.length === 0 ? <Empty>Nothing needs you.</Empty> : null}
    <NeedCards needs={needs.slice(0, MAX_CARDS)} c={c} />
    {needs.length > MAX_CARDS ? (
      <p class="muted">
        and {count(needs.length - MAX_CARDS)} more, which <code>npx seller-mirror status</code>{' '}
        lists
      </p>
    ) : null}
  </Section>
);

/** A card for each, with the button that helps. */
export const NeedCards: FC<{ needs: readonly Need[]; c: DashboardContext }> = ({ needs, c }) =>
  needs.length === 0 ? null : (
    <div class="cards">
      {needs.map(({ kind, seller, tone, title, text, remedy, since, source, page }) => (
        <Card
          tone={tone}
          title={title}
          actions={
            SYNC_HELPS.includes(kind) && isOperator(c) ? (
              <ActionButton action="/sync" token={c.get('token')} fields={{ seller: seller ?? '' }}>
                Sync now
              </ActionButton>
            ) : c.req.path === page.path ? undefined : (
              <a class={kind === 'decision' ? 'button main' : 'button'} href={page.path}>
                {page.label}
              </a>
            )
          }
        >
          {source === null ? null : (
            <>
              <Untrusted text={listName(c, source)} />:{' '}
            </>
          )}
          <Untrusted text={source === null ? capital(text) : text} isWhole />
          {since === null ? null : (
            <>
              {' '}
              (<Ago at={since} />)
            </>
          )}
          . <Sentence text={`${capital(remedy)}.`} />
        </Card>
      ))}
    </div>
  );

const SYNC_HELPS: readonly Need['kind'][] = ['failed', 'interrupted', 'stale'];
