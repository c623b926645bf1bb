import type { Listing, ListingColumn, Tone } from './listing.js';

/**
 * Something that people list, look at and act on. It is described once: `cli/resource.ts` makes commands of it
 * (`NAME`, `NAME show ID`, `NAME ACTION ID`), `dashboard/resource.tsx` pages and buttons. `Source` is what it is read
 * from: the store, or more.
 */
export interface Resource<Row, Found, Source> {
  readonly listing: Listing<Row, Source>;
  /** The word for one, such as `run`. */
  readonly one: string;
  /** How one is named. Numbers of items are their sellers’ own, so that two sellers may have the same. */
  readonly ids: 'number' | 'name' | 'number of a seller';
  /** The ones with this id: several only if ids are numbers of sellers. @param seller null: of any */
  readonly find: (source: Source, id: string, seller: string | null) => Promise<readonly Found[]>;
  /** Why there is none with this id, and what to do; null: nothing more is known. */
  readonly whyNone?: (
    source: Source,
    id: string,
    seller: string | null,
  ) => Promise<readonly [problem: string, remedy: string] | null>;
  readonly sellerOf: (found: Found) => string | null;
  /** What its page shows, and `show`. Absent: the list says all. */
  readonly record?: Described<Found, Source>;
  readonly actions: readonly Action<Found, Source>[];
}

/** What people see of one. */
interface Described<Found, Source> {
  readonly title: (found: Found) => string;
  /** One line below the title. */
  readonly head: readonly ListingColumn<Found>[];
  readonly notices: (found: Found) => readonly Notice[];
  /** Key figures; pages leave out zeros. */
  readonly figures: readonly ListingColumn<Found>[];
  /** Names with values, without those that are null. */
  readonly facts: readonly ListingColumn<Found>[];
  readonly parts: readonly Part<Found, Source>[];
  readonly json: (found: Found) => object;
  /** Members of the JSON that are JSON already, since parsing would round numbers. */
  readonly received?: (found: Found) => { readonly [name: string]: string };
}

/** A sentence about one. It may quote untrusted text. Commands stand in backticks. */
export interface Notice {
  readonly tone: Tone;
  readonly text: string;
  /** What to do, at the terminal. */
  readonly remedy?: string;
  /** The same for somebody who looks at a page. It continues "you can". */
  readonly onPage?: string;
}

/** A table about one. */
export interface Part<Found, Source, Row = unknown> {
  readonly title: string;
  readonly note?: string;
  readonly only?: 'pages';
  /** Said without rows. Absent: the part is left out. */
  readonly none?: string;
  readonly columns: readonly ListingColumn<Row>[];
  readonly rows: (
    source: Source,
    found: Found,
    limit: number,
  ) => readonly Row[] | Promise<readonly Row[]>;
  /** The page with all rows. */
  readonly all?: (found: Found) => string;
  /** Draws the rows on pages, oldest first, as steps over time. */
  readonly steps?: {
    readonly unit: (found: Found) => string | null;
    readonly point: (row: Row) => { readonly at: Date; readonly value: number } | null;
  };
}

/** Lets parts with rows of different types stand in one list. */
export function part<Found, Source, Row>(described: Part<Found, Source, Row>): Part<Found, Source> {
  return described as unknown as Part<Found, Source>;
}

/** Something that people can do to one. */
export interface Action<Found, Source> {
  /** As in the command and in the path. */
  readonly name: string;
  /** The button. */
  readonly label: string;
  /** What becomes of it. With it, the button stands below the notices. */
  readonly hint?: string;
  /** In the log of actions. Absent: the label in lower case. */
  readonly logged?: string;
  /** Completes “to …”. */
  readonly about: string;
  /** @param who acts */
  readonly isPossible: (found: Found, who: string) => boolean;
  /** What a person types first. Absent or null: nothing. */
  readonly confirm?: (found: Found) => Confirmation | null;
  /** Whether its form stands folded at the end of the page, since it is seldom wanted and can't be undone. */
  readonly isLast?: true;
  /** Whether the person may say why. */
  readonly takesNote?: boolean;
  /** @param note why; may be empty */
  readonly perform: (actor: Actor<Source>, found: Found, note: string) => Promise<Done>;
}

export interface Confirmation {
  /** The name of the field. */
  readonly field: string;
  /** Its label, which says what to type. */
  readonly ask: string;
  readonly answer: string;
  /** Said about another answer. */
  readonly wrong: string;
}

/** What an action did. */
export interface Done {
  /** For the terminal. */
  readonly text: string;
  /** For `--json`. Absent: the text. */
  readonly json?: object;
  /** The page to show next. Absent: the one before. */
  readonly path?: string;
  /** A key of the notices of pages. */
  readonly notice: string;
}

/** Who acts, and what actions may use. */
export interface Actor<Source> {
  readonly source: Source;
  /** The person, as logs and runs name them. */
  readonly who: string;
  /** The process, shown to whoever finds a lock held. */
  readonly holder: string;
  /** Has a worker mirror a seller, one part, or an item. */
  readonly ask: (
    seller: string,
    wanted:
      | { readonly kind: 'sync' | 'account' | 'items' }
      | { readonly kind: 'item'; readonly itemId: number },
  ) => Promise<void>;
  /** Records alerts, and asks for deliveries of feeds, after data has changed. */
  readonly followUp: () => Promise<void>;
}
