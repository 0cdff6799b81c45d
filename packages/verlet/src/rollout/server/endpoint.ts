/** What the three generating endpoints share: their surroundings, and the way they answer. */
import { randomUUID } from 'node:crypto';
import { ApiError, toApiError } from './errors.js';
import type { ItemStore } from './item-store.js';
import type { RequestScope } from './request-scope.js';
import { type SseMessage, sseResponse } from './sse.js';
import type { CaptureSession, ServerOptions } from './types.js';

export interface EndpointContext {
  options: ServerOptions;
  scope: RequestScope;
  session?: CaptureSession;
  items: ItemStore;
}

export type Endpoint = (context: EndpointContext, body: unknown) => Promise<Response>;

/** Streams get tokens as they come; a whole answer is gathered in one go. */
export function pauseFor({ scope }: EndpointContext, isStream: boolean | null | undefined): () => number {
  return isStream ? () => scope.streamPauseMs : () => Number.POSITIVE_INFINITY;
}

/** A rollout's address leads to the policy, whatever name the agent has for its model. */
export function checkModel({ options, session }: EndpointContext, model: string): void {
  if (session || model === options.model) return;
  throw new ApiError(
    404,
    `The model '${model}' does not exist; this server has '${options.model}'.`,
    'model',
    'model_not_found',
  );
}

export function checkChoices(options: ServerOptions, n: number, param = 'n'): void {
  const limit = options.maxChoices ?? 256;
  if (n > limit)
    throw new ApiError(400, `${n} choices were asked for; at most ${limit} are made.`, param, 'invalid_value');
}

export function streamAnswer(
  { options, scope }: EndpointContext,
  messages: AsyncGenerator<SseMessage>,
): Promise<Response> {
  return sseResponse(messages, {
    onError(error) {
      const apiError = toApiError(error);
      if (apiError.status === 500) (options.onError ?? console.error)(error);
      return { data: apiError.body };
    },
    onCancel: () => scope.abort(new ApiError(499, 'The client closed the request.', null, 'client_closed')),
    onClose: () => scope.close(),
  });
}

export const newId = (prefix: string) => `${prefix}${randomUUID().replaceAll('-', '')}`;

export const unixSeconds = () => Math.floor(Date.now() / 1000);
