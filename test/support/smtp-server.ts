import { createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { TLSSocket } from 'node:tls';
import { onTestFinished } from 'vitest';
import type { Certificate } from './certificate.js';

/** A received mail. */
export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Headers and body as sent, without the doubled dots. */
  readonly source: string;
  /** `user:password`; null without a login. */
  readonly login: string | null;
  readonly isEncrypted: boolean;
}

interface SmtpOptions {
  /** Offers STARTTLS with this certificate. */
  readonly tls?: Certificate;
  /** Replies that replace the usual ones, by the start of the command. */
  readonly replies?: Readonly<Record<string, string>>;
  /** Never sends a reply. */
  readonly isSilent?: boolean;
}

/** Starts a small mail server on a free port of 127.0.0.1. It stops when the test ends. */
export async function startSmtp({ tls, replies = {}, isSilent = false }: SmtpOptions = {}) {
  const mails: ReceivedMail[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    if (!isSilent) converse(socket, false);
  });

  function converse(socket: Socket, isEncrypted: boolean): void {
    let waiting = '';
    let from = '';
    let to: string[] = [];
    let login: string | null = null;
    let data: string[] | null = null;
    const say = (text: string): void => void socket.write(`${text}\r\n`);
    if (!isEncrypted) say('220 mail.test ESMTP');
    socket.on('data', (chunk: Buffer) => {
      waiting += chunk.toString('utf8');
      for (let end = waiting.indexOf('\r\n'); end >= 0; end = waiting.indexOf('\r\n')) {
        const line = waiting.slice(0, end);
        waiting = waiting.slice(end + 2);
        if (data === null) command(line);
        else if (line === '.') {
          mails.push({ from, to, source: data.join('\r\n'), login, isEncrypted });
          data = null;
          say('250 queued');
        } else data.push(line.replace(/^\./, ''));
      }
    });

    function command(line: string): void {
      const scripted = Object.entries(replies).find(([start]) => line.startsWith(start));
      if (scripted !== undefined) return say(scripted[1]);
      const address = /<([^>]*)>/.exec(line)?.[1] ?? '';
      if (line.startsWith('EHLO')) {
        const offers = ['mail.test', 'AUTH PLAIN'];
        if (tls !== undefined && !isEncrypted) offers.push('STARTTLS');
        say(offers.map((one, n) => `250${n === offers.length - 1 ? ' ' : '-'}${one}`).join('\r\n'));
      } else if (line === 'STARTTLS' && tls !== undefined) {
        say('220 go ahead');
        socket.removeAllListeners('data');
        const secure = new TLSSocket(socket, { isServer: true, ...tls });
        secure.on('error', () => undefined);
        converse(secure, true);
      } else if (line.startsWith('AUTH PLAIN')) {
        login = Buffer.from(line.slice(11), 'base64').toString().split('\0').slice(1).join(':');
        say('235 welcome');
      } else if (line.startsWith('MAIL FROM')) {
        from = address;
        to = [];
        say('250 fine');
      } else if (line.startsWith('RCPT TO')) {
        to.push(address);
        say('250 fine');
      } else if (line === 'DATA') {
        data = [];
        say('354 go on');
      } else if (line === 'QUIT') {
        say('221 bye');
        socket.end();
      } else say('502 what?');
    }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, mails };
}
