import { plainName } from './columns.js';

/** A cell of a list that says who has the code of its line. */
export interface BuyerCell {
  /** The list's own name of the column. */
  readonly column: string;
  readonly text: string;
}

/** Usual names of columns, compared without case and punctuation: who bought, by which address, with which order. */
const NAMES: readonly (readonly string[])[] = [
  ['name', 'fullname', 'customer', 'customername', 'buyer', 'buyername', 'client', 'clientname'],
  ['firstname', 'givenname', 'lastname', 'surname', 'familyname', 'user', 'username', 'company'],
  ['email', 'mail', 'emailaddress', 'customeremail', 'buyeremail', 'clientemail', 'useremail'],
  ['order', 'orderid', 'ordernumber', 'orderno', 'invoice', 'invoiceid', 'invoicenumber', 'ticket'],
  ['kunde', 'kundenname', 'käufer', 'vorname', 'nachname', 'bestellung', 'bestellnummer'],
  ['nom', 'prénom', 'cliente', 'nombre', 'pedido', 'commande', 'acheteur', 'comprador'],
];
const WORDS = new Set(NAMES.flat());

/** Cells shown beside a code. */
const MOST_CELLS = 4;

/**
 * Finds out who has the code of a line, by the list's own columns: name, e-mail address, order.
 * @param columns the names of the list's columns
 * @param cells of a line, in the same order
 * @returns at most four cells with text
 */
export function buyerCells(
  columns: readonly string[],
  cells: readonly string[],
): readonly BuyerCell[] {
  return columns
    .map((column, at) => ({ column, text: (cells[at] ?? '').trim() }))
    .filter(({ column, text }) => text !== '' && WORDS.has(plainName(column)))
    .slice(0, MOST_CELLS);
}
