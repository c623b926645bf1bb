import { buffer } from 'node:stream/consumers';
import { fromBufferPromise } from 'yauzl';
import { ZipFile } from 'yazl';

/** A ZIP archive of these files, in order. */
export async function zipOf(files: Readonly<Record<string, string | Buffer>>): Promise<Buffer> {
  const zip = new ZipFile();
  for (const [name, text] of Object.entries(files)) {
    zip.addBuffer(Buffer.from(text), name, { compress: text.length > 0 });
  }
  zip.end();
  return buffer(zip.outputStream);
}

export interface SheetXml {
  readonly name: string;
  /** The XML within `sheetData`. */
  readonly rows: string;
  readonly attributes?: string;
}

const MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
const OFFICE = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const RELATIONS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"';

/** Cell styles: 0 is a number, 1 a date, 2 a time in a custom format, 3 money in red. */
const STYLES = `<styleSheet ${MAIN}><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd hh:mm"/><numFmt numFmtId="165" formatCode="[Red]#,##0.00 &quot;days&quot;"/></numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>`;

/** The files of a workbook, with the paths that Excel uses. */
export function workbookFiles(
  sheets: readonly SheetXml[],
  { texts = '', properties = '' }: { readonly texts?: string; readonly properties?: string } = {},
): Record<string, string> {
  const relation = (id: string, type: string, target: string): string =>
    `<Relationship Id="${id}" Type="${OFFICE}/${type}" Target="${target}"/>`;
  const listed = sheets.map(
    ({ name, attributes = '' }, n) =>
      `<sheet name="${name}" sheetId="${n + 1}" r:id="rId${n + 1}" ${attributes}/>`,
  );
  const relations = [
    ...sheets.map((_, n) => relation(`rId${n + 1}`, 'worksheet', `worksheets/sheet${n + 1}.xml`)),
    relation('s', 'styles', '/xl/styles.xml'),
    relation('t', 'sharedStrings', 'sharedStrings.xml'),
  ];
  return {
    '[Content_Types].xml': '<Types/>',
    '_rels/.rels': `<Relationships ${RELATIONS}>${relation('rId1', 'officeDocument', 'xl/workbook.xml')}</Relationships>`,
    'xl/workbook.xml': `<?xml version="1.0"?><workbook ${MAIN} xmlns:r="${OFFICE}">${properties}<sheets>${listed.join('')}</sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': `<Relationships ${RELATIONS}>${relations.join('')}</Relationships>`,
    'xl/styles.xml': STYLES,
    'xl/sharedStrings.xml': `<sst ${MAIN}>${texts}</sst>`,
    ...Object.fromEntries(
      sheets.map(({ rows }, n) => [
        `xl/worksheets/sheet${n + 1}.xml`,
        `<?xml version="1.0" encoding="UTF-8"?>\n<worksheet ${MAIN}><sheetData>${rows}</sheetData></worksheet>`,
      ]),
    ),
  };
}

/** A workbook whose only sheet has these rows as XML. */
export function workbookOf(rows: string, texts = '', properties = ''): Promise<Buffer> {
  return zipOf(workbookFiles([{ name: 'Sheet1', rows }], { texts, properties }));
}

/** XML of a text cell. */
export function inline(reference: string, text: string): string {
  return `<c r="${reference}" t="inlineStr"><is><t>${text}</t></is></c>`;
}

/** The text of each part of an archive. */
export async function partsOf(bytes: Buffer): Promise<Record<string, string>> {
  const zip = await fromBufferPromise(bytes);
  const parts: Record<string, string> = {};
  for await (const entry of zip.eachEntry()) {
    parts[entry.fileName] = String(await buffer(await zip.openReadStreamPromise(entry)));
  }
  return parts;
}

/** The XML of a workbook's first sheet, its styles, and its list of sheets. */
export async function sheetOf(bytes: Buffer) {
  const parts = await partsOf(bytes);
  const part = (path: string): string => parts[path] ?? '';
  return {
    sheet: part('xl/worksheets/sheet1.xml'),
    styles: part('xl/styles.xml'),
    book: part('xl/workbook.xml'),
  };
}

/** The colours behind cells, by their place. */
export function coloursOf(sheet: string, styles: string): Record<string, string> {
  const listed = (name: string, one: string): readonly string[] => {
    const [, list = ''] = new RegExp(`<${name}\\b[^>]*>([^]*?)</${name}>`).exec(styles) ?? [];
    return list.match(new RegExp(`<${one}\\b[^>]*?(?:/>|>[^]*?</${one}>)`, 'g')) ?? [];
  };
  const colours = listed('fills', 'fill').map((fill) => /fgColor rgb="(\w+)"/.exec(fill)?.[1]);
  const fills = listed('cellXfs', 'xf').map((xf) => Number(/fillId="(\d+)"/.exec(xf)?.[1] ?? 0));
  const cells = [...sheet.matchAll(/<c r="(\w+)" s="(\d+)"/g)];
  return Object.fromEntries(
    cells.flatMap(([, place = '', style]) => {
      const colour = colours[fills[Number(style)] ?? 0];
      return colour === undefined ? [] : [[place, colour]];
    }),
  );
}
