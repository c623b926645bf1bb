/** How the answer about a code looks, on the page of a check and on its own page. */

import type { Child, FC } from 'hono/jsx';
import type { Customer } from '../codes/lists/buyer.js';
import type { Sentence, Step } from '../codes/words.js';
import type { KnownPurchase } from '../codes/known-code.js';
import type { RecordFacts } from '../codes/evidence.js';
import { dayText } from '../codes/words.js';
import { printable } from './format.js';
import { type Fact, Icon, Untrusted, When } from './parts.js';

/** The class that gives a verdict its colour. */
export const VERDICT_CLASS: Readonly<Record<RecordFacts['verdict'] | 'not_a_code', string>> = {
  valid: 'good',
  invalid: 'bad',
  no_longer_valid: 'gone',
  unproven: 'warn',
  pending: 'quiet',
  rejected: 'quiet',
  not_a_code: 'quiet',
};

/** One sentence, its verdict in colour. The rest may quote the marketplace. */
export const Verdict: FC<{ of: Sentence; tone: string }> = ({ of, tone }) => (
  <>
    <span class={`verdict ${tone}`}>{of.head}</span> <Untrusted text={of.rest} none="" isWhole />
  </>
);

/** What happened to a code, one line each. @param form of the times */
export const Steps: FC<{ of: readonly Step[]; form?: 'minute' | 'second' }> = ({
  of,
  form = 'minute',
}) => (
  <ol class="steps">
    {of.map(({ tone, at, isSince, text }) => (
      <li class={tone}>
        <span class="when">
          {isSince ? 'since ' : ''}
          <When at={at} form={isSince ? 'day' : form} />
        </span>
        <Untrusted text={text} isWhole />
      </li>
    ))}
  </ol>
);

/** A text for a customer, with a button that copies it. Without the page’s script, it can be selected. */
export const Reply: FC<{ text: string }> = ({ text }) => (
  <pre class="reply" tabindex={0}>
    {printable(text)}
  </pre>
);

/** Copies a text. Shown only where the page’s script runs. */
export const CopyButton: FC<{
  text: string;
  /** Said when it was done. */
  done: string;
  isMain?: boolean;
  /** For screen readers, where several buttons say the same. */
  about?: string;
  children?: Child;
}> = ({ text, done, isMain = false, about, children = 'Copy reply' }) => (
  <button
    type="button"
    class={isMain ? 'copy main' : 'copy plain'}
    data-copy={printable(text)}
    data-done={done}
    aria-label={about === undefined ? undefined : `Copy reply to ${printable(about)}`}
  >
    <Icon name="copy" /> <span>{children}</span>
  </button>
);

/** Who has a code, by the columns of a list, for `Facts`. */
export function customerFacts(customer: Customer | null): (Fact | null)[] {
  const known = [customer?.name, customer?.email].filter((text) => typeof text === 'string');
  return [
    known.length === 0 ? null : ['Customer', known.map((text) => <LineOf text={text} />)],
    ...(customer?.more ?? []).map(({ column, text }): Fact => [
      printable(column),
      <Untrusted text={text} />,
    ]),
  ];
}

const LineOf: FC<{ text: string }> = ({ text }) => (
  <div>
    <Untrusted text={text} />
  </div>
);

const DAY_MS = 86_400_000;

interface Life {
  readonly boughtAt: Date;
  readonly endsAt: Date | null;
  /** When a check found it valid for the last time; null: it is valid. */
  readonly lostAt: Date | null;
  readonly now: Date;
  readonly foundTimes: number;
  readonly lastFoundAt: Date | null;
}

/** The dates of a purchase for its bar; null if none is known. */
export function lifeOf(
  purchase: KnownPurchase | null,
  more: Pick<Life, 'lostAt' | 'now' | 'foundTimes' | 'lastFoundAt'>,
): Life | null {
  const bought = purchase?.purchasedAt ?? null;
  if (bought === null) return null;
  const ends = purchase?.supportedUntil ?? null;
  return { ...more, boughtAt: new Date(bought), endsAt: ends === null ? null : new Date(ends) };
}

/** The life of a purchase as a bar: bought, found valid, support ends, today. */
export const LifeBar: FC<{ of: Life }> = ({ of }) => {
  const { boughtAt, endsAt, lostAt, now, foundTimes, lastFoundAt } = of;
  const from = boughtAt.getTime();
  const until = Math.max(now.getTime(), endsAt?.getTime() ?? 0, from + DAY_MS);
  const place = (at: Date): number =>
    Math.round((1_000 * (Math.min(until, Math.max(from, at.getTime())) - from)) / (until - from)) /
    10;
  const today = place(now);
  const support = endsAt === null ? 0 : place(endsAt);
  const good = Math.min(lostAt === null ? today : place(lostAt), endsAt === null ? today : support);
  const daysLeft = endsAt === null ? 0 : Math.ceil((endsAt.getTime() - now.getTime()) / DAY_MS);
  const ended = endsAt !== null && endsAt <= now;
  const ends = lostAt !== null ? 'Support would end' : ended ? 'Support ended' : 'Support ends';
  const label = [
    `bought ${dayText(boughtAt)}`,
    lostAt === null ? '' : `no longer valid since ${dayText(lostAt)}`,
    endsAt === null ? 'no support' : `${ends.toLowerCase()} ${dayText(endsAt)}`,
  ];
  return (
    <div class="life">
      <p class="ends">
        <span>
          <b>Bought</b>
          {dayText(boughtAt)}
        </span>
      </p>
      <svg role="img" aria-label={label.filter(Boolean).join(', ')} width="100%" height="44">
        <rect x="0" y="24" width="100%" height="8" rx="4" />
        {today > good ? (
          <rect
            class={lostAt === null ? 'quiet' : 'gone'}
            x={`${good}%`}
            y="24"
            width={`${Math.max(0.4, today - good)}%`}
            height="8"
            rx="2"
          />
        ) : null}
        <rect class="good" x="0" y="24" width={`${Math.max(0.4, good)}%`} height="8" rx="4" />
        <rect class="today" x={`${Math.min(99.8, today)}%`} y="18" width="2" height="20" />
        <text
          x={`${today}%`}
          y="12"
          text-anchor={today > 90 ? 'end' : today < 10 ? 'start' : 'middle'}
        >
          Today
        </text>
      </svg>
      <p class="ends">
        <span>
          {foundTimes === 0 ? null : (
            <>
              Found valid {foundTimes === 1 ? 'once' : `${foundTimes} times`}
              {lastFoundAt === null ? null : (
                <>
                  , last <When at={lastFoundAt} />
                </>
              )}
            </>
          )}
        </span>
        {lostAt === null ? null : (
          <span class="gone">
            <b>No longer valid</b> since <When at={lostAt} />
          </span>
        )}
        <span>
          {endsAt === null ? (
            'No support'
          ) : (
            <>
              <b>{ends}</b>
              {dayText(endsAt)}
              {daysLeft > 0 && lostAt === null ? `, in ${daysLeft} days` : ''}
            </>
          )}
        </span>
      </p>
    </div>
  );
};
