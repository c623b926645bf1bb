import type { Secret } from '../domain/secret.js';
import { shownTexts, type AlertChannel, type AlertMessage, type AlertReply } from './message.js';

/** Whom to mail, and by which server. */
export interface MailTarget {
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte on; otherwise by STARTTLS, unless `mayBePlain`. */
  readonly isTls: boolean;
  readonly mayBePlain: boolean;
  readonly user: string | null;
  readonly password: Secret | null;
  readonly from: string;
  readonly to: readonly string[];
}

/** Longest time for one step of the conversation with the mail server. */
const TIMEOUT_MS = 15_000;

/** Mails messages, as plain text: nothing in it can act. */
export function createMail(target: MailTarget, timeoutMs = TIMEOUT_MS): AlertChannel {
  const { host, port, isTls, mayBePlain, user, password, from, to } = target;
  return {
    async send(message, signal) {
      signal.throwIfAborted();
      const { createTransport } = await import('nodemailer'); // only who sends mail pays for it
      const transport = createTransport({
        host,
        port,
        secure: isTls,
        requireTLS: !isTls && !mayBePlain,
        ...(user === null ? {} : { auth: { user, pass: password?.reveal() ?? '' } }),
        connectionTimeout: timeoutMs,
        greetingTimeout: timeoutMs,
        socketTimeout: timeoutMs,
        dnsTimeout: timeoutMs,
        disableFileAccess: true,
        disableUrlAccess: true,
      });
      const sending = transport
        .sendMail({
          from: { name: 'seller-mirror', address: from },
          to: to.map((address) => ({ name: '', address })),
          subject: `seller-mirror: ${shownTexts(message).title}`,
          // The same at each repetition, so that mail programs show it once.
          messageId: `<${message.id}@${from.split('@').at(-1)}>`,
          date: message.at,
          headers: { 'Auto-Submitted': 'auto-generated' },
          text: textOf(message),
        })
        .then(({ response }): AlertReply => ({ kind: 'delivered', status: statusOf(response) }))
        .catch((error: unknown): AlertReply => {
          return { kind: 'retry', problem: problemOf(error), notBefore: null };
        })
        .finally(() => transport.close());
      const sent = new AbortController();
      try {
        // What was handed over by then may arrive twice, under one id.
        return await Promise.race([sending, rejectsAt(signal, sent.signal)]);
      } finally {
        sent.abort();
      }
    },
  };
}

/** Rejects with the signal's reason when it ends. @param done ends the wait for it */
function rejectsAt(signal: AbortSignal, done: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true, signal: done });
  });
}

function textOf(message: AlertMessage): string {
  const { title, text, remedy, label } = shownTexts(message);
  const lines = [
    title,
    text,
    ...(remedy === null ? [] : [`What to do: ${remedy}`]),
    ...(message.link === null ? [] : [`${label}:\n${message.link.url}`]),
    `At ${message.at.toISOString()}.`,
  ];
  return `${lines.join('\n\n')}\n`;
}

/** The number that a reply of SMTP begins with. */
function statusOf(response: string): number {
  return Number(/^\d{3}/.exec(response)?.[0] ?? 250);
}

/** What can go wrong, in words; the server's own may name the login. */
const PROBLEMS: Readonly<Record<string, string>> = {
  EAUTH: 'the mail server refused the login',
  ENOAUTH: 'the mail server refused the login',
  ETLS: 'the mail server offers no TLS that can be used',
  EENVELOPE: 'the mail server refused sender, recipient or message',
  EMESSAGE: 'the mail server refused sender, recipient or message',
  ETIMEDOUT: 'the mail server did not answer in time',
};

function problemOf(error: unknown): string {
  const { code, responseCode } = error as { code?: unknown; responseCode?: unknown };
  const name = typeof code === 'string' && /^\w{1,60}$/.test(code) ? code : 'unknown';
  const words = PROBLEMS[name] ?? `the mail server could not be reached (${name})`;
  return typeof responseCode === 'number' ? `${words} (SMTP ${responseCode})` : words;
}
