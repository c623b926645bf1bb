import { z } from 'zod';
import {
  asked,
  changes,
  changesParameters,
  noParameters,
  run,
  runParameters,
  status,
} from './manage-schemas.js';
import { answer, answers, checkManyRequest, checkRequest, MAX_CODES, problem } from './schemas.js';
import type { Scope } from '../service/tokens-store.js';

/** A request that a program can make. */
interface Operation {
  readonly id: string;
  readonly summary: string;
  readonly scope: Scope;
  /** Of the body of a POST; absent: it has none. */
  readonly body?: z.ZodType;
  readonly parameters?: z.ZodObject;
  readonly answer: readonly [status: 200 | 202, about: string, schema: z.ZodType];
  /** What it is refused with, besides what any request is. */
  readonly failures?: readonly (keyof typeof FAILURES)[];
}

const OPERATIONS: Readonly<Record<string, readonly ['get' | 'post', Operation]>> = {
  '/v1/codes/check': [
    'post',
    {
      id: 'checkCode',
      summary: 'Look up one purchase code',
      scope: 'codes',
      body: checkRequest,
      answer: [200, 'The verdict.', answer],
      failures: [400, 413, 422],
    },
  ],
  '/v1/codes/check-many': [
    'post',
    {
      id: 'checkCodes',
      summary: `Look up to ${MAX_CODES} purchase codes`,
      scope: 'codes',
      body: checkManyRequest,
      answer: [200, 'The verdicts.', answers],
      failures: [400, 413, 422],
    },
  ],
  '/v1/status': [
    'get',
    {
      id: 'status',
      summary: 'Whether each copy is current, and what needs a person',
      scope: 'manage',
      parameters: noParameters,
      answer: [200, 'The state.', status],
    },
  ],
  '/v1/sellers/{seller}/sync': [
    'post',
    {
      id: 'sync',
      summary: 'Ask for a sync of account and items, which a worker performs',
      scope: 'manage',
      parameters: noParameters,
      answer: [
        202,
        'It is asked for. The same request that nobody has begun is not made twice.',
        asked,
      ],
      failures: [404],
    },
  ],
  '/v1/runs/{run}': [
    'get',
    {
      id: 'run',
      summary: 'How a run went, or goes; what was asked for is followed to its end',
      scope: 'manage',
      parameters: runParameters,
      answer: [200, 'The run.', run],
      failures: [404, 422],
    },
  ],
  '/v1/changes': [
    'get',
    {
      id: 'changes',
      summary: 'Changes of items in the order of their numbers',
      scope: 'manage',
      parameters: changesParameters,
      answer: [200, 'A page of changes.', changes],
      failures: [422],
    },
  ],
};

const FAILURES = {
  400: 'The request can’t be read.',
  401: 'The token is missing, wrong or revoked.',
  403: 'The token has another scope; the error names the one that is needed.',
  404: 'There is no such seller or run for this token.',
  405: 'The address takes another method.',
  413: 'The request is too large.',
  422: 'A field or a parameter is wrong.',
  429: 'Too many requests; `Retry-After` says when to ask again.',
  503: 'Not available right now.',
};
const OF_ALL = [401, 403, 405, 429, 503] as const;

/** The schemas by their names in the document. */
const SCHEMAS = z
  .registry<{ id: string }>()
  .add(checkRequest, { id: 'CheckRequest' })
  .add(checkManyRequest, { id: 'CheckManyRequest' })
  .add(answer, { id: 'Answer' })
  .add(answers, { id: 'Answers' })
  .add(status, { id: 'Status' })
  .add(asked, { id: 'Asked' })
  .add(run, { id: 'Run' })
  .add(changes, { id: 'Changes' })
  .add(problem, { id: 'Problem' });

/** Where a schema stands in the document. */
function placeOf(id: string): string {
  return `#/components/schemas/${id}`;
}

/** The API as an OpenAPI 3.1 document, made from the schemas. @param version of the program */
export function openApi(version: string): object {
  const paths: Record<string, object> = {};
  for (const [path, [method, operation]] of Object.entries(OPERATIONS)) {
    paths[path] = { [method]: described(path, operation) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'seller-mirror: look up purchase codes, and manage the mirror', version },
    servers: [{ url: '/' }],
    paths: {
      ...paths,
      '/v1/health': {
        get: {
          operationId: 'health',
          security: [],
          summary: 'Whether the API can work',
          responses: {
            200: { description: 'Yes.' },
            503: { description: 'The database does not answer.' },
          },
        },
      },
    },
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: Object.fromEntries(
        Object.entries(z.toJSONSchema(SCHEMAS, { uri: placeOf }).schemas).map(([id, schema]) => [
          id,
          withoutDialect(schema),
        ]),
      ),
    },
  };
}

function described(
  path: string,
  {
    id,
    summary,
    scope,
    body,
    parameters,
    answer: [status, about, schema],
    failures = [],
  }: Operation,
): object {
  const json = (of: z.ZodType): object => ({
    'application/json': { schema: { $ref: placeOf(SCHEMAS.get(of)?.id ?? '') } },
  });
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } };
  });
  const inQuery = Object.entries(parameters?.shape ?? {}).map(([name, one]) => {
    return { name, in: 'query', schema: withoutDialect(z.toJSONSchema(one, { io: 'input' })) };
  });
  const responses: Record<string, object> = {
    [status]: { description: about, content: json(schema) },
  };
  for (const code of [...OF_ALL, ...failures]) {
    responses[code] = { description: FAILURES[code], content: json(problem) };
  }
  return {
    operationId: id,
    summary,
    description: `Needs a token with the scope \`${scope}\`.`,
    security: [{ token: [] }],
    ...(inPath.length + inQuery.length > 0 ? { parameters: [...inPath, ...inQuery] } : {}),
    ...(body === undefined ? {} : { requestBody: { required: true, content: json(body) } }),
    responses,
  };
}

function withoutDialect(schema: object): object {
  return Object.fromEntries(
    Object.entries(schema).filter(([key]) => key !== '$schema' && key !== '$id'),
  );
}
