import type { App } from '../../app.js';
import type { Json } from '../../domain/item.js';
import { IntakeError, resultWriter, writeWhole, type ResultOptions } from '../../intake/index.js';
import { CommandError } from '../errors.js';
import { writeAll } from '../output/index.js';
import { ownCommand } from '../own-command.js';
import type { OutPlace } from './out-place.js';
import { resultRows } from './result-row.js';

/**
 * Writes the result of an audit as it is now: into a file whole or not at all, or to stdout as it
 * comes.
 * @throws {CommandError} when the file can't be written
 */
export async function writeResult(
  { store }: App,
  auditId: bigint,
  place: OutPlace,
  signal: AbortSignal,
): Promise<void> {
  const program = ownCommand();
  const { columns, layout, prunedAt } = (await store.audits.listOf(auditId)) ?? NO_LIST;
  if (prunedAt !== null) {
    throw new CommandError(
      `the list of audit ${auditId} is no longer kept`,
      `KEEP_AUDITS_DAYS says for how long lists are; what is known of each code stays: \`${program} codes show CODE\``,
    );
  }
  const writer = resultWriter(place.format, columns, resultOptions(layout));
  const text = writer.text(resultRows(store.audits.results(auditId), Date.now()));
  if (place.path === null) await writeAll(process.stdout, text);
  else await writeFile(place.path, text, `${program} audits export ${auditId}`, signal);
}

/** @param again the command that writes it again */
async function writeFile(
  path: string,
  text: AsyncIterable<string>,
  again: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await writeWhole(path, text, { signal });
  } catch (error) {
    if (!(error instanceof IntakeError)) throw error;
    throw new CommandError(
      error.message,
      `${error.remedy} Nothing is lost: \`${again}\` writes it again`,
    );
  }
}

const NO_LIST = { columns: [], layout: null, prunedAt: null };

/**
 * How a result is written in CSV: with the delimiter of the first list, and with a byte order mark
 * when one of the lists had one or was not UTF-8. Such lists come from spreadsheets, and Excel reads
 * UTF-8 without the mark as something else.
 */
export function resultOptions(layout: Json): ResultOptions {
  const lists = listsIn(layout);
  const delimiter = lists[0]?.['delimiter'];
  return {
    ...(typeof delimiter === 'string' ? { delimiter } : {}),
    bom: lists.some(
      ({ bom, encoding }) => bom === true || (typeof encoding === 'string' && encoding !== 'utf-8'),
    ),
  };
}

/** How each list of an audit was read; see `layoutJson`. */
function listsIn(layout: Json): readonly { readonly [key: string]: Json }[] {
  if (typeof layout !== 'object' || layout === null || Array.isArray(layout)) return [];
  const { lists } = layout;
  if (!Array.isArray(lists)) return [];
  return lists.filter(
    (one): one is { [key: string]: Json } =>
      typeof one === 'object' && one !== null && !Array.isArray(one),
  );
}

/** The sentences on how the lists of an audit were read. */
export function readingOf(layout: Json): readonly string[] {
  const lists = listsIn(layout);
  return lists.flatMap(({ name, reasons }) => {
    const said = Array.isArray(reasons) ? reasons.filter((one) => typeof one === 'string') : [];
    return lists.length === 1 ? said : said.map((one) => `${JSON.stringify(name)}: ${one}`);
  });
}
