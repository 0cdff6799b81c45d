/** Errors in OpenAI's shape. Clients branch on `status`, `code` and `param`, so all three are part of the contract. */
import { SamplingParamsError } from '../sampling-params.js';

export class ApiError extends Error {
  override readonly name = 'ApiError';

  constructor(
    readonly status: number,
    message: string,
    readonly param: string | null = null,
    readonly code: string | null = null,
  ) {
    super(message);
  }

  get type(): string {
    if (this.status === 401) return 'authentication_error';
    if (this.status === 403) return 'permission_error';
    if (this.status === 404) return 'not_found_error';
    return this.status < 500 ? 'invalid_request_error' : 'server_error';
  }

  get body() {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.code } };
  }
}

export function invalidParameter(param: string, message: string, code = 'invalid_value'): ApiError {
  return new ApiError(400, message, param, code);
}

export function unsupported(param: string, message: string): ApiError {
  return new ApiError(400, message, param, 'unsupported_parameter');
}

export function contextLengthExceeded(limit: number, prompt: number, completion: number, param: string): ApiError {
  const asked = completion > 0 ? ` and ${completion} for the completion` : '';
  return new ApiError(
    400,
    `This model's maximum context length is ${limit} tokens, but the prompt has ${prompt} tokens${asked}. ` +
      'Shorten the prompt or ask for fewer tokens.',
    param,
    'context_length_exceeded',
  );
}

/** Parameters are checked under their TypeScript names; clients know them by their wire names. */
const WIRE_NAMES: Record<string, string> = {
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  stopTokenIds: 'stop_token_ids',
  ignoreEos: 'ignore_eos',
  minTokens: 'min_tokens',
  maxTokens: 'max_tokens',
  topLogProbs: 'top_logprobs',
};

/** `renames` says how this endpoint spells a parameter when it differs from the usual name. */
export function toApiError(error: unknown, renames: Record<string, string> = {}): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof SamplingParamsError) {
    const name = renames[error.field] ?? WIRE_NAMES[error.field] ?? error.field;
    const value = JSON.stringify(error.value) ?? String(error.value);
    return invalidParameter(name, `Invalid value for '${name}': ${value}. Allowed: ${error.allowed}.`);
  }
  const { status, param, code } = (error ?? {}) as { status?: unknown; param?: string; code?: unknown };
  // Sessions and engines refuse in their own words; a context overflow is the client's to mend whoever finds it.
  const isRefusal = code === 'context_length_exceeded' || (error instanceof Error && error.name === 'RequestError');
  const known = isRefusal ? 400 : status;
  if (error instanceof Error && typeof known === 'number' && known >= 400 && known < 600) {
    return new ApiError(known, error.message, param ?? null, typeof code === 'string' ? code : null);
  }
  return new ApiError(500, `Internal error: ${error instanceof Error ? error.message : String(error)}`);
}
