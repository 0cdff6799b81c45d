/** The routes. Web-standard requests in, responses out; the socket is in `listen.ts`. */
import { type Context, Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import type { Engine } from '../types.js';
import { authorize } from './access.js';
import { chatCompletions } from './chat.js';
import { completions } from './completions.js';
import { addControl } from './control.js';
import { type Endpoint, unixSeconds } from './endpoint.js';
import { ApiError, toApiError } from './errors.js';
import { ItemStore } from './item-store.js';
import { ServerMetrics } from './metrics.js';
import { RequestScope } from './request-scope.js';
import { responses } from './responses.js';
import type { ServerOptions } from './types.js';

export interface ServerApp {
  fetch(request: Request, ...rest: unknown[]): Response | Promise<Response>;
  readonly metrics: ServerMetrics;
  /** Requests that are generating now. */
  readonly live: ReadonlySet<RequestScope>;
  /** From now on generation is refused with 503; what runs goes on. */
  stopAccepting(): void;
}

export interface AppOptions extends ServerOptions {
  /** Names a request may be addressed to. Keeps web pages from reaching a loopback server under a name of their own. */
  allowedHosts?: readonly string[];
}

const DEFAULT_MAX_BODY_BYTES = 16 * 1024 * 1024;
const DEFAULT_REQUEST_TIMEOUT_MS = 30 * 60 * 1000;

export function createApp(options: AppOptions): ServerApp {
  const app = new Hono();
  const metrics = new ServerMetrics();
  const live = new Set<RequestScope>();
  const items = new ItemStore();
  const startedAt = unixSeconds();
  const maxBodyBytes = options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES;
  let isAccepting = true;

  const failure = (error: unknown): Response => {
    const apiError = toApiError(error);
    if (apiError.status === 500) (options.onError ?? console.error)(error);
    const headers = apiError.status === 503 ? { 'retry-after': '1' } : undefined;
    return Response.json(apiError.body, { status: apiError.status, headers });
  };
  app.onError((error) => failure(error));
  app.notFound((c) =>
    failure(new ApiError(404, `There is no ${c.req.method} ${c.req.path} here.`, null, 'unknown_url')),
  );

  app.use(async (c, next) => {
    const host = c.req.header('host')?.replace(/:\d+$/, '').toLowerCase();
    if (options.allowedHosts && host && !options.allowedHosts.includes(host)) {
      throw new ApiError(403, `This server does not answer to the name '${host}'.`, null, 'wrong_host');
    }
    await next();
  });
  app.get('/health', (c) => c.json({ status: isAccepting ? 'ok' : 'stopping' }, isAccepting ? 200 : 503));

  const access = (c: Context) =>
    authorize(options, { authorization: c.req.header('authorization'), rolloutId: c.req.param('rolloutId') });

  const operatorAccess = async (c: Context) => {
    if (await access(c)) throw new ApiError(403, 'The key of a rollout does not open this.', null, 'wrong_key');
  };

  app.get('/metrics', async (c) => {
    await operatorAccess(c);
    const { weightVersion, stats } = options.engine as Engine & { stats?: Record<string, number> };
    return c.text(metrics.render(weightVersion, stats), 200, { 'content-type': 'text/plain; version=0.0.4' });
  });

  const limitBody = bodyLimit({
    maxSize: maxBodyBytes,
    onError: () =>
      failure(new ApiError(413, `The request body is larger than ${maxBodyBytes} bytes.`, null, 'request_too_large')),
  });

  const generating = (name: string, endpoint: Endpoint) => async (c: Context) => {
    let scope: RequestScope | undefined;
    try {
      const session = await access(c);
      const body = await readJson(c);
      if (!isAccepting) throw new ApiError(503, 'The server is shutting down.', null, 'shutting_down');
      scope = new RequestScope(metrics, live, options.requestTimeoutMs ?? DEFAULT_REQUEST_TIMEOUT_MS, c.req.raw.signal);
      const response = await endpoint({ options, scope, session, items }, body);
      metrics.countRequest(name, response.status);
      return response;
    } catch (error) {
      // An engine or session may fail in its own way when cut short; the cause is what the client should hear.
      const cause = scope?.signal.aborted ? scope.signal.reason : error;
      scope?.close();
      metrics.countRequest(name, toApiError(cause).status);
      return failure(cause);
    }
  };

  for (const base of ['/v1', '/r/:rolloutId/v1']) {
    app.get(`${base}/models`, async (c) => {
      await access(c);
      return c.json({ object: 'list', data: [modelCard(options, startedAt)] });
    });
    // Model names hold slashes (`Qwen/Qwen2.5-0.5B`), which clients may or may not escape.
    app.get(`${base}/models/:name{.+}`, async (c) => {
      await access(c);
      const name = decodeURIComponent(c.req.param('name'));
      if (name !== options.model)
        throw new ApiError(404, `The model '${name}' does not exist.`, 'model', 'model_not_found');
      return c.json(modelCard(options, startedAt));
    });
    app.post(`${base}/completions`, limitBody, generating('completions', completions));
    app.post(`${base}/chat/completions`, limitBody, generating('chat_completions', chatCompletions));
    app.post(`${base}/responses`, limitBody, generating('responses', responses));
  }

  if (options.control) addControl(app, options.engine, operatorAccess);

  return {
    fetch: app.fetch,
    metrics,
    live,
    stopAccepting() {
      isAccepting = false;
    },
  };
}

function modelCard(options: ServerOptions, created: number) {
  return {
    id: options.model,
    object: 'model',
    created,
    owned_by: 'verlet',
    max_model_len: options.engine.maxModelLength,
  };
}

/** A JSON content type is asked for because web pages cannot send one to another origin without permission. */
async function readJson(c: Context): Promise<unknown> {
  if (!/^application\/json\b/i.test(c.req.header('content-type') ?? '')) {
    throw new ApiError(
      415,
      "Send JSON, with the header 'Content-Type: application/json'.",
      null,
      'invalid_content_type',
    );
  }
  try {
    return await c.req.json();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new ApiError(400, `The request body is not valid JSON: ${error.message}.`, null, 'invalid_json');
  }
}
