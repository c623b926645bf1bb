import { hash } from 'node:crypto';
import { expect, it } from 'vitest';
import { NO_WIRE_HASH, WIRE_HASH_BYTES, wireHash } from '../../src/marketplace/decode.js';

const RECORD = Buffer.from('{"id": 1}');

it('changes with the version of the decoder, so that records with last night’s bytes are decoded again', () => {
  const versions = Array.from({ length: 256 }, (_, version) => wireHash(RECORD, version));
  expect(new Set(versions).size).toBe(256);
  expect(versions).toContain(hash('sha256', RECORD, 'binary').slice(0, WIRE_HASH_BYTES));
  expect(versions.indexOf(wireHash(RECORD))).toBeGreaterThan(0);
});

it('differs for other bytes, and is never that of a record outside the list', () => {
  const all = Array.from({ length: 1_000 }, (_, id) => wireHash(Buffer.from(`{"id": ${id}}`)));
  expect(new Set([...all, NO_WIRE_HASH]).size).toBe(1_001);
});
