/** Baseline: download of the whole list and one `JSON.parse`. */
import { download, given, tell } from './tell.js';

const { listUrl } = given() as { listUrl: string };
const started = performance.now();
const body = await download(listUrl);
const downloaded = performance.now();
const { items } = JSON.parse(body.toString()) as { items: unknown[] };
const parsed = performance.now();
tell({ ms: parsed - started, downloadMs: downloaded - started, items: items.length });
