/**
 * A module of the built program: what is measured is what users run. The bench itself is compiled
 * into `dist/bench`. The caller names the type, from the source:
 * `(await product('app.js')) as typeof AppModule`.
 */
export function product(path: string): Promise<unknown> {
  return import(new URL(`../${path}`, import.meta.url).href) as Promise<unknown>;
}
