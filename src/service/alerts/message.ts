import type { Json } from '../../domain/item.js';
import { oneLine } from '../../domain/text.js';

/** An alert for people. Its texts may contain text from the marketplace: each channel escapes them. */
export interface AlertMessage {
  /** Stays the same for each retry, so that the receiver can recognize duplicates. */
  readonly id: string;
  /** Words separated by dots, such as `run.failed`. */
  readonly type: string;
  /** When it happened. */
  readonly at: Date;
  readonly data: Readonly<Record<string, Json>>;
  /** What happened, in a few words. */
  readonly title: string;
  /** What happened, in a sentence. */
  readonly text: string;
  /** What to do; null: nothing. Commands are between backticks. */
  readonly remedy: string | null;
  /** The page of the dashboard about it; null if the dashboard's address is not configured. */
  readonly link: { readonly url: string; readonly label: string } | null;
  readonly tone: 'good' | 'warn' | 'bad';
}

/** The result of sending a message. `problem` contains neither addresses nor secrets. */
export type AlertReply =
  /** @property status of HTTP or SMTP */
  | { readonly kind: 'delivered'; readonly status: number }
  /** Send it again, but not before `notBefore` (milliseconds since 1970). */
  | { readonly kind: 'retry'; readonly problem: string; readonly notBefore: number | null }
  /** The receiver wants no more alerts. */
  | { readonly kind: 'give-up'; readonly problem: string };

/** Sends alerts by mail or webhook. */
export interface AlertChannel {
  /**
   * Sends a message once. Never rejects because of the receiver: its failures are replies too.
   * @throws the signal's reason when it aborts first
   */
  send(message: AlertMessage, signal: AbortSignal): Promise<AlertReply>;
}

/** Maximum characters of a title and of any other text. Chats refuse longer messages. */
const MAX_TITLE = 100;
const MAX_TEXT = 500;

/** Returns the texts of a message, each as one short line without invisible characters. */
export function shownTexts({ title, text, remedy, link }: AlertMessage): {
  readonly title: string;
  readonly text: string;
  readonly remedy: string | null;
  readonly label: string;
} {
  return {
    title: oneLine(title, MAX_TITLE),
    text: oneLine(text, MAX_TEXT),
    remedy: remedy === null ? null : oneLine(remedy, MAX_TEXT),
    label: oneLine(link?.label ?? '', MAX_TITLE),
  };
}

/** Splits a text into its words and its commands, which are between backticks. */
export function spansOf(
  text: string,
): readonly { readonly text: string; readonly isCommand: boolean }[] {
  const parts = text.split('`');
  // An odd number of backticks: they don't delimit commands.
  if (parts.length % 2 === 0) return [{ text, isCommand: false }];
  return parts.map((part, n) => ({ text: part, isCommand: n % 2 === 1 }));
}
