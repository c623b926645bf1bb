import { plural, Progress } from '../output/index.js';
import type { OpenList } from './lists.js';

/** Shows how far reading is on stderr: bytes where the size is known, and lines. */
export class LoadProgress {
  #list: OpenList | null = null;
  #bar: Progress | null = null;

  show(list: OpenList, rows: number): void {
    if (this.#bar === null || this.#list !== list) {
      this.finish();
      const { name, size: total } = list;
      this.#list = list;
      this.#bar = new Progress({
        output: process.stderr,
        label: `reading ${name}`,
        unit: 'bytes',
        total,
      });
    }
    this.#bar.update(list.read(), { detail: plural(rows, 'line') });
  }

  finish(): void {
    this.#bar?.finish();
    this.#bar = null;
  }
}
