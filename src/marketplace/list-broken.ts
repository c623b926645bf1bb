import { describeFailure, type Failure } from '../domain/reply.js';

/** A list that began well and did not end well: nothing may be concluded from what came of it. */
export class ListBroken extends Error {
  override name = 'ListBroken';
  constructor(readonly failure: Failure) {
    super(`the list of items broke off: ${describeFailure(failure)}`);
  }
}
