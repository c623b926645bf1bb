import type { FC } from 'hono/jsx';
import { runRemedy } from '../../catalogue/problem.js';
import type { AuditProgress } from '../../codes/types.js';
import { PAUSED } from '../../catalogue/sellers-store.js';
import {
  type CopyState,
  mayLackOnlyItem,
  ONLY_ITEM_HINT,
  type SellerStatus,
} from '../../catalogue/status-store.js';
import { capital, count, plural } from '../format.js';
import { ActionButton, Ago, Card, Empty, Section, Sentence, Untrusted } from '../parts.js';

/** Cards of sellers; the rest is only counted. */
const MAX_CARDS = 12;

/** A seller and the state of its copy. */
export type Seller = SellerStatus & { readonly copy: CopyState };

/** Most urgent first: a held run must not disappear behind a thousand stale copies. */
const URGENCY = ['held', 'parked', 'failed', 'stale', 'empty'] as const;
type NeedKind = (typeof URGENCY)[number];

function needOf(seller: Seller): NeedKind | null {
  const { copy, lastProblem } = seller;
  if (copy === 'parked') return 'parked';
  if (lastProblem?.state === 'held') return 'held';
  if (copy === PAUSED) return null;
  if (lastProblem !== null) return 'failed';
  if (copy === 'stale' || copy === 'never') return 'stale';
  return mayLackOnlyItem(seller) ? 'empty' : null;
}

type AuditRow = Pick<AuditProgress, 'auditId' | 'source' | 'state' | 'unproven' | 'problem'>;

/** What needs the user: sellers with problems, most urgent first, then audits without verdicts. */
export const NeedsYou: FC<{
  sellers: readonly Seller[];
  audits: readonly AuditRow[];
  token: string;
  mayAct: boolean;
}> = ({ sellers, audits, token, mayAct }) => {
  const needs = URGENCY.flatMap((kind) =>
    sellers.filter((seller) => needOf(seller) === kind).map((seller) => ({ kind, seller })),
  );
  return (
    <Section title="Needs you">
      {needs.length + audits.length === 0 ? (
        <Empty>Nothing needs you.</Empty>
      ) : (
        <div class="cards">
          {needs.slice(0, MAX_CARDS).map(({ kind, seller }) => (
            <SellerCard kind={kind} seller={seller} token={token} mayAct={mayAct} />
          ))}
          {audits.map((audit) => (
            <AuditCard audit={audit} />
          ))}
        </div>
      )}
      {needs.length > MAX_CARDS ? (
        <p class="muted">
          and {plural(needs.length - MAX_CARDS, 'more seller', 'more sellers')}, all listed below
        </p>
      ) : null}
    </Section>
  );
};

const SellerCard: FC<{ kind: NeedKind; seller: Seller; token: string; mayAct: boolean }> = ({
  kind,
  seller: { sellerId, lastProblem: problem, parked, held, itemsMirroredAt },
  token,
  mayAct,
}) => {
  const sync = mayAct ? (
    <ActionButton action="/sync" token={token} fields={{ seller: sellerId }}>
      Sync now
    </ActionButton>
  ) : null;
  const run =
    problem === null ? null : <a href={`/runs/${problem.runId}`}>Run {String(problem.runId)}</a>;
  if (kind === 'held') {
    return (
      <Card
        tone="warn"
        title={`${sellerId}: a run needs your decision`}
        actions={
          <a class="button main" href={`/runs/${problem?.runId}/decide`}>
            Decide
          </a>
        }
      >
        {run}: the list lacks{' '}
        {held === null ? 'items' : `${count(held.items)} of ${plural(held.present, 'item')}`}, more
        than a run may remove by itself. Nothing was removed.
      </Card>
    );
  }
  if (kind === 'parked') {
    return (
      <Card
        tone="bad"
        title={`${sellerId} is stopped`}
        actions={
          <a class="button" href={`/sellers/${encodeURIComponent(sellerId)}`}>
            Open {sellerId}
          </a>
        }
      >
        <Untrusted text={capital(parked?.reason ?? '')} />. Schedules skip this seller until that is
        fixed.
      </Card>
    );
  }
  if (kind === 'failed') {
    return (
      <Card tone="bad" title={`${sellerId}: the last run failed`} actions={sync}>
        {run}: <Untrusted text={problem?.problem ?? 'no reason was recorded'} />.{' '}
        {problem === null ? null : <Sentence text={`${capital(runRemedy(problem))}.`} />}
      </Card>
    );
  }
  if (kind === 'empty') {
    return (
      <Card tone="warn" title={`${sellerId}: no items`}>
        <Sentence text={`${capital(ONLY_ITEM_HINT)}.`} />
      </Card>
    );
  }
  const isNew = itemsMirroredAt === null;
  const title = isNew ? `${sellerId} was never mirrored` : `${sellerId}: the copy is stale`;
  return (
    <Card tone="warn" title={title} actions={sync}>
      {isNew ? (
        'Its items were never mirrored.'
      ) : (
        <>
          Last mirrored <Ago at={itemsMirroredAt} />.
        </>
      )}{' '}
      Check that <code>npx seller-mirror run</code> is running.
    </Card>
  );
};

const AuditCard: FC<{ audit: AuditRow }> = ({
  audit: { auditId, source, state, unproven, problem },
}) => {
  const isFailed = state === 'failed';
  return (
    <Card
      tone={isFailed ? 'bad' : 'warn'}
      title={
        isFailed
          ? `Check ${auditId} failed`
          : `Check ${auditId}: ${plural(unproven, 'code')} unproven`
      }
      actions={
        <a class="button" href={`/audits/${auditId}`}>
          Open check {String(auditId)}
        </a>
      }
    >
      <Untrusted text={source} />:{' '}
      {isFailed ? (
        <>
          <Untrusted text={problem ?? 'no reason was recorded'} />. Resume continues it.
        </>
      ) : (
        'these codes got no verdict. Check them again later.'
      )}
    </Card>
  );
};
