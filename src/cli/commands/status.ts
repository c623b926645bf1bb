import { Option, type Command } from 'commander';
import { describeWide } from '../../catalogue/changes.js';
import { type CheckToAnswer, listChecksToAnswer } from '../../codes/check-rows-store.js';
import { sourceWords } from '../../codes/words.js';
import { count, age } from '../../domain/text.js';
import { stateWord, toneOf } from '../../listing/listing.js';
import {
  type FeedCard,
  howToResume,
  OBSTACLES,
  readBoard,
  type ScheduleCard,
  type SellerCard,
  statusJson,
} from '../../service/board.js';
import { type Need, toAnswerText } from '../../service/needs.js';
import { nextTimes } from '../../service/sellers-resource.js';
import { printResult, stdoutLook } from '../console.js';
import { action, readSettings, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { assertSeller, describeCommand, type CommonOptions } from '../options.js';
import { pairs } from '../output/table.js';
import { type Look, markOf, safeLine } from '../output/text.js';
import { withRunnableCommands } from '../own-command.js';

interface StatusOptions extends CommonOptions {
  readonly check?: boolean;
}

/** `status`: shows whether each seller's copy is current. */
export function add(program: Command): void {
  const check = new Option('--check', 'exit with 1 when a configured seller’s copy is not current');
  describeCommand(program.command('status'), {
    about:
      'Shows whether each seller’s copy is current, when `run` or `scheduler` mirrors it next, and how current each feed is. A copy is stale if its items were last mirrored more than STALE_AFTER_HOURS (26) hours ago.',
    examples: [
      'seller-mirror status',
      'seller-mirror status --check || mail -s "mirror is not current" me@shop.example',
    ],
    options: [check, 'json', 'seller'],
  }).action(action(status));
}

function status(signal: AbortSignal, options: StatusOptions): Promise<ExitCode> {
  // With --check, a configuration without sellers is an error: it must not pass for a current copy.
  if (options.check === true) readSettings('sellers');
  return withApp('status', 'store', signal, async (app) => {
    const { db, config } = app;
    await assertSeller(app, options.seller);
    const { now, sellers, feeds, general } = await readBoard(
      db,
      config,
      new Date(db.clock.now()),
      options.seller,
    );
    const toAnswer = await listChecksToAnswer(db, options.seller);
    const shown = feeds.filter(
      ({ place, sellers: of }) =>
        place !== null && (options.seller === undefined || of?.includes(options.seller) !== false),
    );
    const json = options.json === true ? statusJson({ sellers, feeds, general }) : null;
    await printResult(options, json, () => {
      const look = stdoutLook();
      const blocks = sellers.map((seller) => sellerLines(seller, toAnswer, now, look));
      if (blocks.length === 0) blocks.push(NO_SELLER);
      blocks.push(...shown.map((feed) => feedLines(feed, now, look)));
      return [...blocks, ...general.map((need) => needLines(need, now, look))].join('\n');
    });
    // The copy of a paused seller grows old because a person wants it to.
    const isStale = sellers.some(
      ({ configured, copy }) => configured && copy !== 'current' && copy !== 'paused',
    );
    return options.check === true && isStale ? EXIT.failed : EXIT.done;
  });
}

const NO_SELLER =
  'No seller is configured, and none was ever mirrored: set MARKETPLACE_URL and MARKETPLACE_API_KEY, then run `seller-mirror sync`.\n';

/** The mark of a state, and the name of what is in it with the state's word. */
function headLine(state: string, name: string, more: string, look: Look): string {
  return `${markOf(toneOf(state), look)} ${safeLine(name)} · ${stateWord(state)}${more}\n`;
}

/** Of what is about no seller or feed. */
function needLines(need: Need, now: Date, look: Look): string {
  return `${markOf(need.tone, look)} ${safeLine(need.title)}\n${details({}, [need], now, look)}`;
}

/** Formats the texts that are not empty, and what needs a person. */
function details(
  texts: Readonly<Record<string, string | null>>,
  needs: readonly Need[],
  now: Date,
  look: Look,
): string {
  const lines = [
    ...Object.entries(texts),
    ...needs.flatMap(({ tone, since, runId, source, text, remedy }) => {
      const when = since === null ? '' : age(since, now);
      const list = source && (sourceWords(source) ?? source);
      const where = [when, runId === null ? '' : `run ${runId}`, list].filter(Boolean).join(', ');
      return [
        ['needs you', `${markOf(tone, PLAIN)} ${where === '' ? text : `${where}: ${text}`}`],
        ['remedy', remedy],
      ] as const;
    }),
  ];
  // Commands are made typeable here, before lines are wrapped.
  const present = lines.flatMap(([label, text]) =>
    text === null || text === '' ? [] : [[label, withRunnableCommands(text)] as const],
  );
  return pairs(present, look, '  ');
}

function sellerLines(
  seller: SellerCard,
  toAnswer: readonly CheckToAnswer[],
  now: Date,
  look: Look,
): string {
  const { sellerId, configured, state, running, itemsMirroredAt, needs } = seller;
  const run =
    running === null
      ? ''
      : ` (${running.kind}, begun ${age(running.startedAt, now)} by ${safeLine(running.holder)})`;
  const last =
    state === 'never'
      ? ''
      : itemsMirroredAt === null
        ? ', never mirrored'
        : `, items mirrored ${age(itemsMirroredAt, now)}`;
  const known = configured ? '' : ' (in the store, not configured)';
  const head = headLine(state, sellerId, `${run}${last}${known}`, look);
  const finished = toAnswer
    .filter((check) => check.sellerId === sellerId)
    .map((check) => {
      const exported = `\`seller-mirror audits export ${check.auditId} --out check-${check.auditId}.csv\``;
      return `${toAnswerText(check)} (${age(check.finishedAt, now)}); ${exported} writes the list with its verdicts`;
    });
  const texts = { ...detailsOf(seller, now), codes: finished.join('. ') };
  return head + details(texts, needs, now, look);
}

function detailsOf(seller: SellerCard, now: Date): Readonly<Record<string, string | null>> {
  const { account, marketplace, accountMirroredAt, quarantined, items, lastWide, parked } = seller;
  const money = [account?.balance, account?.currency].filter(Boolean).join(' ');
  const seen = accountMirroredAt === null ? '' : `, mirrored ${age(accountMirroredAt, now)}`;
  const unreadable = quarantined === 0 ? '' : ` · ${count(quarantined)} quarantined`;
  const paused = seller.copy === 'paused' ? parked : null;
  return {
    marketplace,
    account: account && `${account.username}, balance ${money || '–'}${seen}`,
    items:
      marketplace &&
      `${count(items.live)} live · ${count(items.missing)} missing · ${count(items.removed)} removed${unreadable}`,
    changed:
      lastWide &&
      `${age(lastWide.at, now)}, run ${lastWide.runId}: ${lastWide.changes.map(describeWide).join(', ')}`,
    paused:
      paused &&
      `${age(paused.since, now)} ${paused.reason.replace(/^paused /, '')}; schedules skip this seller`,
    ...Object.fromEntries(seller.schedules.map((one) => [LABELS[one.kind], scheduleText(one)])),
    remedy: paused && howToResume(seller.sellerId),
  };
}

/** `pairs` makes its values safe, so that they can't be coloured. */
const PLAIN: Look = { columns: null, colour: false };

const LABELS = {
  sync: 'schedule',
  account: 'account only',
  recheck: 'codes again',
  feed: 'feed',
} as const;

/** `0 2 * * * (Europe/Berlin): Sun 22 Nov 02:00, Mon 23 Nov 02:00, Tue 24 Nov 02:00`. */
function scheduleText(schedule: ScheduleCard): string {
  const { cron, timeZone, obstacle } = schedule;
  const when =
    obstacle === null
      ? nextTimes(schedule) || 'never'
      : OBSTACLES[obstacle].filter((part) => part !== null).join('; ');
  return `${cron} (${timeZone}): ${when}`;
}

function feedLines(feed: FeedCard, now: Date, look: Look): string {
  const { name, state, place, deliveredAt, delay, needs } = feed;
  const last = deliveredAt === null ? 'never delivered' : `all delivered ${age(deliveredAt, now)}`;
  const behind = delay.since === null ? '' : ` since ${age(delay.since, now)}`;
  const head = headLine(state, `feed ${name}`, `${behind}, ${last}`, look);
  return head + details({ target: place, behind: delay.views.join(', ') }, needs, now, look);
}
