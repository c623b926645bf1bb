import type { Json } from '../domain/item.js';

/** What people are told. All its texts may come from elsewhere: each way to tell it escapes them. */
export interface AlertMessage {
  /** The same whenever the same message is sent again, so that the receiver can tell. */
  readonly id: string;
  /** Words with dots between them, such as `run.failed`. */
  readonly type: string;
  /** When it happened. */
  readonly at: Date;
  readonly data: Readonly<Record<string, Json>>;
  /** What happened, in a few words. */
  readonly title: string;
  /** What happened, in a sentence. */
  readonly text: string;
  /** What to do; null: nothing. Commands stand between backticks. */
  readonly remedy: string | null;
  /** Where the dashboard shows it; null when nobody said where the dashboard is. */
  readonly link: { readonly url: string; readonly label: string } | null;
  readonly tone: 'good' | 'warn' | 'bad';
}

/** What became of a message. The sentences name neither addresses nor secrets. */
export type AlertReply =
  /** @property status of HTTP or SMTP */
  | { readonly kind: 'delivered'; readonly status: number }
  /** It may be taken later, but not before `notBefore` (milliseconds since 1970). */
  | { readonly kind: 'retry'; readonly problem: string; readonly notBefore: number | null }
  /** The receiver wants no more of them. */
  | { readonly kind: 'give-up'; readonly problem: string };

/** A way to tell people. */
export interface AlertChannel {
  /**
   * Sends a message once. Whatever the receiver does, or fails to do, is a reply.
   * @throws the signal's reason when it ends first
   */
  send(message: AlertMessage, signal: AbortSignal): Promise<AlertReply>;
}

/** Characters of a title, and of any other text: chats refuse messages that are too long. */
const LONGEST_TITLE = 100;
const LONGEST_TEXT = 500;

/** Characters that are not seen, or turn the direction of what follows. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+/gu;

/** The texts of a message, each one line of bounded length in which nothing hides. */
export function shownTexts({ title, text, remedy, link }: AlertMessage): {
  readonly title: string;
  readonly text: string;
  readonly remedy: string | null;
  readonly label: string;
} {
  return {
    title: line(title, LONGEST_TITLE),
    text: line(text, LONGEST_TEXT),
    remedy: remedy === null ? null : line(remedy, LONGEST_TEXT),
    label: line(link?.label ?? '', LONGEST_TITLE),
  };
}

function line(text: string, most: number): string {
  const seen = text.toWellFormed().replace(UNSEEN, ' ').trim();
  // Never a half of a character that takes two units.
  return seen.length <= most ? seen : `${seen.slice(0, most - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
