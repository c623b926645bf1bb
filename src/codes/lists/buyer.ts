import { plainName } from './kinds.js';

/** Who has the code of a line, by the list's own columns. */
export interface Customer {
  /** Null if the list names nobody. */
  readonly name: string | null;
  /** How a letter to the customer begins: a first name, or the name. */
  readonly firstName: string | null;
  readonly email: string | null;
  /** Further cells that tell customers apart, with the names of their columns: an order, a ticket. */
  readonly more: readonly { readonly column: string; readonly text: string }[];
}

/** Usual names of columns, compared without case and punctuation. */
const NAMES = {
  name: 'name fullname customer customername buyer buyername client clientname company kunde kundenname käufer nom cliente nombre acheteur comprador user username',
  first: 'firstname givenname vorname prénom',
  last: 'lastname surname familyname nachname',
  email: 'email mail emailaddress customeremail buyeremail clientemail useremail',
  order:
    'order orderid ordernumber orderno invoice invoiceid invoicenumber ticket bestellung bestellnummer pedido commande',
} as const;

type Kind = keyof typeof NAMES;
const KINDS = new Map(
  (Object.entries(NAMES) as [Kind, string][]).flatMap(([kind, names]) =>
    names.split(' ').map((name) => [name, kind] as const),
  ),
);

/** Cells of a list without known columns that are shown. */
const FEW = 2;

/**
 * Finds out who has the code of a line: name, e-mail address, order. Without such columns, the first other cells tell
 * customers apart.
 * @param columns the names of the list's columns
 * @param cells of a line, in the same order
 * @param code as the line has it: it names nobody
 */
export function customerOf(
  columns: readonly string[],
  cells: readonly string[],
  code: string | null,
): Customer {
  const all = columns.flatMap((column, at) => {
    const text = (cells[at] ?? '').trim();
    return text === '' ? [] : [{ column, text, kind: KINDS.get(plainName(column)) ?? null }];
  });
  const first = (kind: Kind): string | null => all.find((one) => one.kind === kind)?.text ?? null;
  const names = [first('first'), first('last')].filter((part) => part !== null);
  const name = first('name') ?? (names.length === 0 ? null : names.join(' '));
  const email = first('email');
  const orders = all.filter(({ kind }) => kind === 'order');
  const isKnown = name !== null || email !== null || orders.length > 0;
  const others = all.filter(({ kind, text }) => kind === null && text !== code);
  return {
    name,
    firstName: first('first') ?? firstNameIn(name),
    email,
    more: isKnown ? orders : others.slice(0, FEW),
  };
}

/** `Mira` of `Mira Okafor`; the whole name if it may be a title, a company, or the last name first. */
function firstNameIn(name: string | null): string | null {
  const [first = '', ...rest] = name?.split(/\s+/) ?? [];
  return rest.length > 0 && rest.length < 3 && /^\p{Lu}\p{L}{2,}$/u.test(first) ? first : name;
}
