import { hash } from 'node:crypto';
import { expect, it } from 'vitest';
import { NO_WIRE_HASH, WIRE_HASH_BYTES, wireHash } from '../../src/marketplace/decode.js';

const RECORD = Buffer.from('{"id": 1}');

it('changes with the version of the decoder, so that records with last night’s bytes are decoded again', () => {
  const versions = Array.from({ length: 256 }, (_, version) =>
    wireHash(RECORD, version).toString('hex'),
  );
  expect(new Set(versions).size).toBe(256);
  const digest = hash('sha256', RECORD, 'buffer').subarray(0, WIRE_HASH_BYTES);
  expect(wireHash(RECORD).equals(digest)).toBe(false);
});

it('is the same for the same bytes, differs for others, and is never that of a record outside the list', () => {
  expect(wireHash(RECORD)).toEqual(wireHash(Buffer.from(RECORD)));
  const others = Array.from({ length: 1_000 }, (_, id) => wireHash(Buffer.from(`{"id": ${id}}`)));
  expect(new Set(others.map((one) => one.toString('hex'))).size).toBe(1_000);
  expect(others.some((one) => one.equals(NO_WIRE_HASH))).toBe(false);
});
