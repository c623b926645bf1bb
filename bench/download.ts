import { request } from 'undici';

/** The list as the marketplace sends it. */
export async function download(listUrl: string): Promise<Buffer> {
  const { statusCode, body } = await request(listUrl);
  if (statusCode !== 200) throw new Error(`the marketplace answered ${statusCode}`);
  return Buffer.from(await body.arrayBuffer());
}

/** Reads the list and throws it away; returns its size in bytes. */
export async function skim(listUrl: string): Promise<number> {
  const { statusCode, body } = await request(listUrl);
  if (statusCode !== 200) throw new Error(`the marketplace answered ${statusCode}`);
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) bytes += chunk.length;
  return bytes;
}
