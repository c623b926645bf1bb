import { describe, expect, it } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import { openAlertChannels } from '../../../src/service/service.js';
import type { AlertMessage } from '../../../src/service/alerts/message.js';
import { selfSigned } from '../../support/certificate.js';
import { startSmtp } from '../../support/smtp-server.js';

const PASSWORD = 'hunter2-hunter2';
const never = new AbortController().signal;

const MESSAGE: AlertMessage = {
  id: 'msg_1',
  type: 'run.held',
  at: new Date('2026-11-21T02:00:07.123Z'),
  data: {},
  title: 'main: a run waits for your decision',
  text: '30 of 40 items are no longer listed',
  remedy: 'if they are really gone, `seller-mirror sync --accept-removals 7` removes them',
  link: { url: 'https://mirror.example/runs/7', label: 'Look at the removals' },
  tone: 'warn',
};

function mailTo(port: number, more: Readonly<Record<string, unknown>> = {}, timeoutMs = 5_000) {
  const alertMail = {
    host: '127.0.0.1',
    port,
    isTls: false,
    mayBePlain: true,
    user: 'me@shop.example',
    password: new Secret(PASSWORD),
    from: 'me@shop.example',
    to: ['you@shop.example', 'she@shop.example'],
    ...more,
  };
  const settings = { alertWebhook: null, alertMail };
  const { mail } = openAlertChannels(settings, { now: Date.now }, timeoutMs);
  if (mail === null) throw new Error('no channel for mail');
  return mail;
}

/** Parses a mail into its body and its unfolded header fields by name. */
function parsed(source: string): { headers: Map<string, string>; body: string } {
  const [head = '', ...rest] = source.split('\r\n\r\n');
  const fields = head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n');
  const headers = new Map(
    fields.map((field) => [
      field.slice(0, field.indexOf(':')).toLowerCase(),
      field.slice(field.indexOf(':') + 2),
    ]),
  );
  const body = rest.join('\r\n\r\n').replaceAll('=\r\n', '');
  return { headers, body };
}

describe('a mail', () => {
  it('goes to all recipients, after a login, with event, remedy and link', async () => {
    const server = await startSmtp();
    expect(await mailTo(server.port).send(MESSAGE, never)).toEqual({
      kind: 'delivered',
      status: 250,
    });
    const [mail] = server.mails;
    expect(mail).toMatchObject({
      from: 'me@shop.example',
      to: ['you@shop.example', 'she@shop.example'],
      login: `me@shop.example:${PASSWORD}`,
    });
    const { headers, body } = parsed(mail?.source ?? '');
    expect(headers.get('subject')).toBe('seller-mirror: main: a run waits for your decision');
    expect(headers.get('from')).toBe('"seller-mirror" <me@shop.example>');
    expect(headers.get('message-id')).toBe('<msg_1@shop.example>');
    expect(headers.get('content-type')).toMatch(/^text\/plain/);
    expect(body).toContain('30 of 40 items are no longer listed');
    expect(body).toContain(
      'What to do: if they are really gone, `seller-mirror sync --accept-removals 7`',
    );
    expect(body).toContain('https://mirror.example/runs/7');
  });

  it.each([
    ['a line end', 'x\r\nBcc: thief@evil.example\r\n\r\n<b>hello</b>'],
    ['a bare line feed', 'x\nBcc: thief@evil.example'],
    ['line ends of Unicode', 'x\u2028Bcc: thief@evil.example\u0085Bcc: thief@evil.example'],
    ['an end of the message', 'x\r\n.\r\nMAIL FROM:<thief@evil.example>\r\n'],
    ['letters beyond ASCII', 'größer\r\nBcc: thief@evil.example'],
  ])('takes no header and no recipient from a text with %s', async (_, hostile) => {
    const server = await startSmtp();
    const message = {
      ...MESSAGE,
      title: hostile,
      text: hostile,
      remedy: hostile,
      link: { url: 'https://mirror.example/', label: hostile },
    };
    expect((await mailTo(server.port).send(message, never)).kind).toBe('delivered');
    expect(server.mails).toHaveLength(1);
    const [mail] = server.mails;
    expect(mail?.to).toEqual(['you@shop.example', 'she@shop.example']);
    const { headers } = parsed(mail?.source ?? '');
    expect([...headers.keys()].toSorted()).toEqual([
      ...['auto-submitted', 'content-transfer-encoding', 'content-type', 'date', 'from'],
      ...['message-id', 'mime-version', 'subject', 'to'],
    ]);
  });

  it('is not sent without TLS unless the target allows it', async () => {
    const server = await startSmtp();
    const reply = await mailTo(server.port, { mayBePlain: false }).send(MESSAGE, never);
    expect(reply).toMatchObject({ kind: 'retry', problem: expect.stringMatching(/TLS/) as string });
    expect(server.mails).toEqual([]);
  });

  it('is not sent to a server with an untrusted certificate', async () => {
    const server = await startSmtp({ tls: selfSigned(['localhost']) });
    const reply = await mailTo(server.port, { mayBePlain: false }).send(MESSAGE, never);
    expect(reply.kind).toBe('retry');
    expect(server.mails).toEqual([]);
  });
});

describe('a mail that the server refuses is retried, with a problem that quotes nothing of the server', () => {
  it.each([
    ['AUTH PLAIN', `535 no such user ${PASSWORD}`, 'the mail server refused the login (SMTP 535)'],
    [
      'MAIL FROM',
      `550 ${PASSWORD}`,
      'the mail server refused sender, recipient or message (SMTP 550)',
    ],
    ['DATA', `451 ${PASSWORD}`, 'the mail server refused sender, recipient or message (SMTP 451)'],
  ])('%s: %s', async (command, reply, problem) => {
    const server = await startSmtp({ replies: { [command]: reply } });
    expect(await mailTo(server.port).send(MESSAGE, never)).toEqual({
      kind: 'retry',
      notBefore: null,
      problem,
    });
  });

  it('also if the server is down or does not answer', async () => {
    const gone = await mailTo(1).send(MESSAGE, never);
    expect(gone).toMatchObject({
      problem: expect.stringMatching(/^the mail server could not be reached \(\w+\)$/) as string,
    });
    const silent = await startSmtp({ isSilent: true });
    expect(await mailTo(silent.port, {}, 100).send(MESSAGE, never)).toMatchObject({
      problem: expect.stringMatching(/^the mail server did not answer in time/) as string,
    });
  });

  it('and does not delay the stop of a worker', async () => {
    const silent = await startSmtp({ isSilent: true });
    const stop = new AbortController();
    const sending = mailTo(silent.port).send(MESSAGE, stop.signal);
    setTimeout(() => stop.abort(new Error('SIGTERM')), 50);
    await expect(sending).rejects.toThrow('SIGTERM');
  });
});
