import type { ExportableView } from '../../store/exports.js';
import { print, printJson, stdoutLook } from '../console.js';
import { table } from '../output/index.js';

/** Lists the views that can be exported. */
export async function listViews(views: readonly ExportableView[], json: boolean): Promise<void> {
  if (json) {
    const rows = views.map(({ name, comment, key }) => ({ view: name, key, comment }));
    await printJson(rows);
    return;
  }
  await print(
    table(
      views,
      [
        { header: 'view', value: ({ name }) => name },
        { header: 'followed by', value: ({ key }) => key?.join(', ') ?? 'whole only' },
        { header: 'what it holds', value: ({ comment }) => firstSentence(comment ?? '') },
      ],
      stdoutLook(),
    ),
    '\n`seller-mirror export items --format ndjson` exports one. Those with a key can be followed with --since.\n',
  );
}

function firstSentence(text: string): string {
  return text.split(/(?<=[.:,]) /, 1)[0]?.replace(/[.:,]$/, '') ?? '';
}
