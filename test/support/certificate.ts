import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** A key and its self-signed certificate (PEM). */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** Makes a self-signed certificate for DNS names, valid until 2049. For tests only. */
export function selfSigned(names: readonly string[]): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = sequence(oid('2a8648ce3d040302'));
  const subject = sequence(set(sequence(oid('550403'), tlv(0x0c, Buffer.from(names[0] ?? '')))));
  const altNames = sequence(...names.map((name) => tlv(0x82, Buffer.from(name))));
  const authority = sequence(tlv(0x01, Buffer.from([0xff])));
  const toBeSigned = sequence(
    tlv(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    subject,
    sequence(utcTime('200101000000Z'), utcTime('491231235959Z')),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    tlv(
      0xa3,
      sequence(
        sequence(oid('551d11'), tlv(0x04, altNames)),
        sequence(oid('551d13'), tlv(0x04, authority)),
      ),
    ),
  );
  const signature = sign('sha256', toBeSigned, privateKey);
  const bits = tlv(0x03, Buffer.concat([Buffer.from([0]), signature]));
  const cert = sequence(toBeSigned, ecdsaWithSha256, bits).toString('base64');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${cert.replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  };
}

function tlv(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return tlv(0x30, Buffer.concat(parts));
}

function set(...parts: Buffer[]): Buffer {
  return tlv(0x31, Buffer.concat(parts));
}

function integer(bytes: Buffer): Buffer {
  return tlv(0x02, bytes);
}

function oid(hex: string): Buffer {
  return tlv(0x06, Buffer.from(hex, 'hex'));
}

function utcTime(text: string): Buffer {
  return tlv(0x17, Buffer.from(text));
}
