import type { Secret } from '../../domain/secret.js';
import { shownTexts, type AlertChannel, type AlertMessage, type AlertReply } from './message.js';

/** The mail server and the addresses. */
export interface MailTarget {
  readonly host: string;
  readonly port: number;
  /** True: implicit TLS. False: STARTTLS, which only `mayBePlain` makes optional. */
  readonly isTls: boolean;
  readonly mayBePlain: boolean;
  readonly user: string | null;
  readonly password: Secret | null;
  readonly from: string;
  readonly to: readonly string[];
}

/** Timeout of each step of the SMTP session. */
const TIMEOUT_MS = 15_000;

/** Mails alerts as plain text, so that no mark-up in them takes effect. */
export function createMail(target: MailTarget, timeoutMs = TIMEOUT_MS): AlertChannel {
  const { host, port, isTls, mayBePlain, user, password, from, to } = target;
  return {
    async send(message, signal) {
      signal.throwIfAborted();
      const { createTransport } = await import('nodemailer'); // slow to load
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
          // The same for each retry, so that mail programs show the message once.
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
        // After an abort, the retry may deliver the message twice, with the same id.
        return await Promise.race([sending, rejectsAt(signal, sent.signal)]);
      } finally {
        sent.abort();
      }
    },
  };
}

/** Rejects with the signal's reason when it aborts. @param done removes the listener */
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

/** The status code at the start of an SMTP reply. */
function statusOf(response: string): number {
  return Number(/^\d{3}/.exec(response)?.[0] ?? 250);
}

/** Messages by error code. The server's own text is not shown, because it may contain the login. */
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
  const problem = PROBLEMS[name] ?? `the mail server could not be reached (${name})`;
  return typeof responseCode === 'number' ? `${problem} (SMTP ${responseCode})` : problem;
}
