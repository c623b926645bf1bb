import type { FC } from 'hono/jsx';
import type { CheckToAnswer } from '../../codes/check-rows-store.js';
import { plural } from '../../domain/text.js';
import { auditPage, type Need, toAnswerText } from '../../service/needs.js';
import { type DashboardContext, isOperator, listName } from '../context.js';
import { capital } from '../format.js';
import { ActionButton, Ago, Section, Untrusted } from '../parts.js';

/** Needs that a page shows. The others follow when these are done. */
const MAX_NEEDS = 12;

/** `Needs you`: the most urgent first, then customers to answer; or one line that nothing does. */
export const NeedsYou: FC<{
  needs: readonly Need[];
  toAnswer: readonly CheckToAnswer[];
  c: DashboardContext;
}> = ({ needs, toAnswer, c }) => (
  <Section title="Needs you">
    {needs.length + toAnswer.length === 0 ? (
      <p class="muted">Nothing needs you.</p>
    ) : (
      <NeedList needs={needs.slice(0, MAX_NEEDS)} c={c} />
    )}
    {needs.length > MAX_NEEDS ? (
      <p class="muted">and {plural(needs.length - MAX_NEEDS, 'more thing')}, less urgent</p>
    ) : null}
    {toAnswer.length === 0 ? null : (
      <ul class="list">
        {toAnswer.map((check) => (
          <li>
            <div>
              <h3>{toAnswerText(check)}</h3>
              <p>
                <Untrusted text={listName(c, check.source)} /> (<Ago at={check.finishedAt} />)
              </p>
            </div>
            <div class="actions">
              <a class="button" href={auditPage(check.auditId).path}>
                {auditPage(check.auditId).label}
              </a>
            </div>
          </li>
        ))}
      </ul>
    )}
  </Section>
);

/** What happened, what this reader can do about it, and the button that does it. */
export const NeedList: FC<{ needs: readonly Need[]; c: DashboardContext }> = ({ needs, c }) =>
  needs.length === 0 ? null : (
    <ul class="list">
      {needs.map((need, n) => (
        <li class={need.tone}>
          <div>
            <h3>{need.title}</h3>
            <p>
              <What need={need} c={c} />{' '}
              {isOperator(c) ? `You can ${need.onPage}.` : `An operator can ${need.onPage}.`}
            </p>
          </div>
          <div class="actions">
            <Action need={need} c={c} isMain={n === 0} />
          </div>
        </li>
      ))}
    </ul>
  );

const What: FC<{ need: Need; c: DashboardContext }> = ({ need: { source, text, since }, c }) => (
  <>
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
    .
  </>
);

const SYNC_HELPS: readonly Need['kind'][] = ['failed', 'interrupted', 'stale'];

const Action: FC<{ need: Need; c: DashboardContext; isMain: boolean }> = ({ need, c, isMain }) => {
  const { kind, seller, page } = need;
  if (SYNC_HELPS.includes(kind) && isOperator(c)) {
    return (
      <ActionButton action="/sync" token={c.get('token')} fields={{ seller: seller ?? '' }}>
        Sync now
      </ActionButton>
    );
  }
  if (c.req.path === page.path) return null;
  return (
    <a class={isMain && kind === 'decision' ? 'button main' : 'button'} href={page.path}>
      {page.label}
    </a>
  );
};
