import { jsonAnswer } from './answer.js';
import type { Answer } from './answer.js';
import { serverError } from './fault-answers.js';
import { Literal, toJson } from './json.js';
import type { WireObject } from './json.js';
import { listBody, recordJson } from './list.js';
import type { Parameters } from './parameters.js';
import type { Prerendered } from './prerender.js';
import type { Quirks } from './profiles.js';
import { accountWire, purchaseWire } from './render.js';
import type { Seller } from './seller.js';
import type { Operation } from './types.js';
import { translate } from './words.js';
import type { Language, Word } from './words.js';

/** One request as the four operations see it. */
export interface Question {
  readonly operation: Operation;
  readonly parameters: Parameters;
  /** The owner of the key; null when the key is unknown. */
  readonly seller: Seller | null;
  readonly quirks: Quirks;
  readonly language: Language;
  /** Sent with every error envelope instead of the proper status; null for the proper one. */
  readonly errorStatus: number | null;
  /** Different for every request, for servers without a stable order. */
  readonly serial: number;
  readonly prerendered: Prerendered | null;
}

/** Answers one of the four operations (spec 4; statuses and words: field notes, errors). */
export async function answerQuestion(question: Question): Promise<Answer> {
  const { operation, parameters } = question;
  if (parameters.get('api_key') === undefined) {
    return denial(question, 400, 'The api key field is required.');
  }
  switch (operation) {
    case 'account':
      return account(question);
    case 'list':
      return list(question);
    case 'item':
      return item(question);
    case 'validate':
      return validation(question);
  }
}

function account(question: Question): Answer {
  const { seller, quirks } = question;
  if (seller === null) return denial(question, 401, 'Invalid request');
  return success(question, { data: accountWire(seller.account, quirks) });
}

async function list(question: Question): Promise<Answer> {
  const { quirks, language, serial, prerendered } = question;
  const seller = selling(question);
  const least = quirks.oneItemRule ? 2 : 1;
  if (seller === null || seller.catalogue.countListed(least) < least) {
    return denial(question, 404, 'No items found');
  }
  if (seller.catalogue.isPoisoned()) return serverError(500, 'json');
  const unstable = quirks.order === 'unstable';
  const rendered = listBody(seller, quirks, language, unstable ? serial : undefined);
  const headers = { 'Content-Type': 'application/json' };
  if (prerendered === null || unstable) return { status: 200, headers, body: rendered };
  const revision = `${seller.catalogue.revision} ${language} ${JSON.stringify(quirks)}`;
  return { status: 200, headers, body: await prerendered.body(seller, revision, rendered) };
}

function item(question: Question): Answer {
  const id = question.parameters.get('item_id');
  if (id === undefined) return denial(question, 400, 'The item id field is required.');
  if (!/^[+-]?(0|[1-9]\d*)$/.test(id)) {
    return denial(question, 400, 'The item id must be an integer.');
  }
  const catalogue = selling(question)?.catalogue;
  const record = catalogue?.answers(Number(id)) === true ? catalogue.find(Number(id)) : null;
  if (record === null) return denial(question, 404, 'Item Not Found');
  if (record.poisoned === true) return serverError(500, 'json');
  return success(question, { item: new Literal(recordJson(record, question.quirks)) });
}

function validation(question: Question): Answer {
  const { quirks, language } = question;
  const code = question.parameters.get('purchase_code');
  if (code === undefined) return denial(question, 400, 'The purchase code field is required.');
  const seller = selling(question);
  const purchase = seller?.purchases.find(code, seller.catalogue) ?? null;
  const bought = purchase === null ? null : (seller?.catalogue.find(purchase.itemId) ?? null);
  if (purchase?.state !== 'valid' || bought === null) {
    return denial(question, 404, 'Invalid purchase code');
  }
  const wire = purchaseWire(purchase, bought.item, quirks, language);
  switch (quirks.purchaseAt) {
    case 'data.purchase':
      return success(question, { data: { purchase: wire } });
    case 'item':
      return success(question, { item: wire });
    case 'purchase':
      return success(question, { purchase: wire });
  }
}

function selling({ seller }: Question): Seller | null {
  return seller?.sells === true ? seller : null;
}

function success({ quirks, language }: Question, payload: WireObject): Answer {
  const envelope = { status: translate('success', language), ...payload };
  return jsonAnswer(200, toJson(envelope, quirks.phpEscapes));
}

function denial(
  { quirks, language, errorStatus }: Question,
  status: number,
  message: Word,
): Answer {
  const envelope = { status: translate('error', language), msg: translate(message, language) };
  return jsonAnswer(errorStatus ?? status, toJson(envelope, quirks.phpEscapes));
}
