import { expect, it } from 'vitest';
import { describeFailure } from '../../src/marketplace/reply.js';

it('an error without a message is described by its status', () => {
  const failure = { kind: 'refused', httpStatus: 401, message: '' } as const;
  expect(describeFailure(failure)).toBe('the marketplace refused the API key: HTTP 401');
  expect(describeFailure({ ...failure, kind: 'denied', message: 'No' })).toBe(
    'the marketplace answered "No" (HTTP 401)',
  );
});

it('an unreadable answer is described with its beginning, if it has one', () => {
  const detail = 'the answer is not JSON';
  const failure = { kind: 'unreadable', httpStatus: 200, detail } as const;
  expect(describeFailure({ ...failure, excerpt: 'oops' })).toBe(
    'the answer is not JSON (HTTP 200); the answer begins: oops',
  );
  expect(describeFailure({ ...failure, excerpt: '' })).toBe('the answer is not JSON (HTTP 200)');
});
