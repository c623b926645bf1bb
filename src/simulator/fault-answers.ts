import { frameworkError, htmlAnswer, jsonAnswer, redirectAnswer, textBody } from './answer.js';
import type { Answer } from './answer.js';
import type { ComeBack, Fault } from './faults.js';
import { retryAfter } from './limits.js';
import { location, origin } from './redirects.js';
import type { Asked } from './redirects.js';

/** What a fault's reply may show of the request. */
export interface FaultContext extends Asked {
  readonly now: number;
  /** All parameters, the key among them. */
  readonly input: Readonly<Record<string, string>>;
}

const WRONG_TYPES = { array: '[]', string: '"success"', null: 'null', number: '42' } as const;

/** The reply that takes the place of the proper one; null when the fault only spoils that. */
export function faultAnswer(fault: Fault, context: FaultContext): Answer | null {
  switch (fault.kind) {
    case 'rate-limited':
      return frameworkError(429, 'Too Many Attempts.', fault.body !== 'html', {
        'X-RateLimit-Remaining': '0',
        'X-RateLimit-Reset': String(Math.ceil(context.now / 1000 + (fault.retryAfter ?? 60))),
        ...comeBack(fault, context.now),
      });
    case 'server-error':
      return serverError(
        fault.status ?? 500,
        fault.body ?? 'json',
        fault.echo === true ? context : null,
      );
    case 'maintenance':
      return frameworkError(
        503,
        'Service Unavailable',
        fault.body === 'json',
        comeBack(fault, context.now),
      );
    case 'maintenance-redirect':
      return redirectAnswer(fault.status ?? 302, `${origin(context)}/maintenance`);
    case 'switched-off':
      return frameworkError(404, fault.body === 'json' ? '' : 'Not Found', fault.body === 'json');
    case 'challenge':
      return htmlAnswer(fault.status ?? 403, 'Just a moment...', {
        'cf-mitigated': 'challenge',
        Server: 'cloudflare',
      });
    case 'html':
      return htmlAnswer(fault.status ?? 200, 'Welcome');
    case 'empty':
      return jsonAnswer(fault.status ?? 200, '');
    case 'wrong-type':
      return jsonAnswer(200, WRONG_TYPES[fault.json]);
    case 'reply':
      return { status: fault.status, headers: fault.headers ?? {}, body: textBody(fault.body) };
    case 'redirect':
      return redirectAnswer(fault.status ?? 302, location(context, fault));
    default:
      return null;
  }
}

/** An error as Laravel's debug mode shows it. */
export function serverError(
  status: number,
  body: 'json' | 'html',
  echo: FaultContext | null = null,
): Answer {
  const url = echo === null ? null : origin(echo) + echo.target;
  const message = 'SQLSTATE[HY000] [2002] Connection refused';
  if (body === 'html') {
    const input = echo === null ? '' : ` at ${url} with ${JSON.stringify(echo.input)}`;
    return htmlAnswer(status, `${message}${input}`);
  }
  const trace = [
    { file: '/var/www/app/Http/Kernel.php', line: 142, function: 'handle', class: 'Kernel' },
  ];
  const shown = echo === null ? {} : { url, input: echo.input };
  const error = { message, exception: 'PDOException', file: '/var/www/app/Db.php', line: 7, trace };
  return jsonAnswer(status, JSON.stringify({ ...error, ...shown }));
}

function comeBack({ retryAfter: wait, form }: ComeBack, now: number): Record<string, string> {
  if (wait === undefined || wait === null) return {};
  return { 'Retry-After': retryAfter(wait, form ?? 'seconds', now) };
}
