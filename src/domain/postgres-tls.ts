/**
 * Values of `sslmode` in the address of a PostgreSQL server. They mean what they mean to psql, except that `prefer` does
 * not fall back to a connection without TLS. `no-verify` is the driver's own word for `require` without an authority.
 */
export const SSL_MODES: readonly string[] = [
  ...['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'],
];

/**
 * Rewrites the TLS parameters of an address so that the driver reads them as psql does: `require` encrypts without asking
 * who answers, `verify-ca` ignores the host name, and `sslrootcert=system` stands for the authorities that Node.js trusts.
 * The driver alone would check everything in each of these modes, and print a warning that this will change.
 */
export function withPsqlModes(url: string): string {
  const query = url.indexOf('?');
  if (query === -1) return url;
  const parameters = new URLSearchParams(url.slice(query + 1));
  const { sslmode = null, sslrootcert = null } = Object.fromEntries(parameters);
  if (sslmode === null && sslrootcert !== 'system') return url;
  // psql, too, wants the full check with the authorities of the system.
  if (sslrootcert === 'system') set('sslmode', 'verify-full').delete('sslrootcert');
  else if (sslmode === 'allow') set('sslmode', 'disable');
  else if (sslmode === 'no-verify') set('sslmode', 'require').delete('sslrootcert');
  else if (sslmode === 'verify-ca' && sslrootcert === null) set('sslmode', 'verify-full');
  set('uselibpqcompat', 'true');
  return `${url.slice(0, query)}?${parameters.toString()}`;

  function set(name: string, value: string): URLSearchParams {
    parameters.set(name, value);
    return parameters;
  }
}

/** Whether an address asks for TLS. */
export function asksForTls(url: string): boolean {
  const parameters = Object.fromEntries(new URLSearchParams(url.split('?')[1]));
  const { sslmode, ssl, sslrootcert, sslnegotiation } = parameters;
  if (sslmode !== undefined) return sslmode !== 'disable' && sslmode !== 'allow';
  return ssl === 'true' || ssl === '1' || sslrootcert !== undefined || sslnegotiation !== undefined;
}

type Problem = readonly [problem: string, remedy: string];

const NOT_TRUSTED: Problem = [
  'the authority of the server’s certificate is not trusted',
  'Name the authority’s file in DATABASE_URL (?sslmode=verify-full&sslrootcert=/path/to/ca.pem) or in NODE_EXTRA_CA_CERTS.',
];

const OUT_OF_DATE: Problem = [
  'the server’s certificate is not valid at this time',
  'Renew the certificate, or correct the clock of this machine.',
];

/** Problems with certificates, by Node's codes. */
export const CERTIFICATE_PROBLEMS: Readonly<Record<string, Problem>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: NOT_TRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: NOT_TRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: NOT_TRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: NOT_TRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: NOT_TRUSTED,
  CERT_HAS_EXPIRED: OUT_OF_DATE,
  CERT_NOT_YET_VALID: OUT_OF_DATE,
  ERR_TLS_CERT_ALTNAME_INVALID: [
    'the server’s certificate is for another host name',
    'Use that host name in DATABASE_URL, or sslmode=verify-ca with the authority’s file in sslrootcert.',
  ],
};

export const NO_TLS: Problem = [
  'the server does not offer TLS',
  'Turn TLS on at the server, or write sslmode=disable in DATABASE_URL if nobody can listen on the way to it.',
];

export const TLS_NEEDED: Problem = [
  'the server wants TLS',
  'Add sslmode=require to DATABASE_URL (after ?, or after & if it has parameters).',
];
