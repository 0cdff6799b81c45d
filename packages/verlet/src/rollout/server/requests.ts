/** The request bodies this server reads. Fields it does not know pass; fields it knows but cannot honour are refused. */
import { z } from 'zod';
import { ApiError, invalidParameter, unsupported } from './errors.js';

const tokenIds = z.array(z.int().min(0));

/** Ranges are checked by `validateSampling`, here only the types. */
const samplingFields = {
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.number().nullish(),
  min_p: z.number().nullish(),
  repetition_penalty: z.number().nullish(),
  presence_penalty: z.number().nullish(),
  frequency_penalty: z.number().nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  stop_token_ids: tokenIds.nullish(),
  ignore_eos: z.boolean().nullish(),
  min_tokens: z.number().nullish(),
  max_tokens: z.number().nullish(),
  seed: z.number().nullish(),
  n: z.int().min(1).nullish(),
};

const commonFields = {
  model: z.string(),
  stream: z.boolean().nullish(),
  return_token_ids: z.boolean().nullish(),
  /** vLLM's: token strings in log-probs become `token_id:{id}`, which survives tokens that are not valid UTF-8. */
  return_tokens_as_token_ids: z.boolean().nullish(),
};

const streamFields = { stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish() };

const textPart = z.looseObject({ type: z.string(), text: z.string().optional() });

const chatMessage = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content: z.union([z.string(), z.array(textPart)]).nullish(),
  name: z.string().nullish(),
  tool_call_id: z.string().nullish(),
  tool_calls: z
    .array(z.looseObject({ id: z.string(), function: z.looseObject({ name: z.string(), arguments: z.string() }) }))
    .nullish(),
});

const functionFields = {
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
};

export const completionRequest = z.looseObject({
  ...commonFields,
  ...samplingFields,
  ...streamFields,
  prompt: z.union([z.string(), tokenIds, z.array(z.string()), z.array(tokenIds)]),
  logprobs: z.number().nullish(),
});

export const chatRequest = z.looseObject({
  ...commonFields,
  ...samplingFields,
  ...streamFields,
  messages: z.array(chatMessage).min(1),
  max_completion_tokens: z.number().nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.number().nullish(),
  tools: z.array(z.looseObject({ type: z.literal('function'), function: z.looseObject(functionFields) })).nullish(),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
    ])
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).nullish(),
});

const inputItem = z.looseObject({ type: z.string().nullish(), role: z.string().nullish() });

export const responsesRequest = z.looseObject({
  ...commonFields,
  input: z.union([z.string(), z.array(inputItem)]),
  instructions: z.string().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.number().nullish(),
  min_p: z.number().nullish(),
  seed: z.number().nullish(),
  max_output_tokens: z.number().nullish(),
  top_logprobs: z.number().nullish(),
  include: z.array(z.string()).nullish(),
  tools: z.array(z.looseObject({ type: z.literal('function'), ...functionFields })).nullish(),
  tool_choice: z
    .union([z.enum(['none', 'auto', 'required']), z.looseObject({ type: z.literal('function'), name: z.string() })])
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  store: z.boolean().nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
  truncation: z.string().nullish(),
});

export type CompletionRequest = z.infer<typeof completionRequest>;
export type ChatRequest = z.infer<typeof chatRequest>;
export type ResponsesRequest = z.infer<typeof responsesRequest>;

/** Parses a body or throws an error whose `param` is the path of the first offending field, e.g. `messages[0].role`. */
export function parseRequest<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  if (issue.path.length === 0) throw new ApiError(400, 'The request body must be a JSON object.', null, 'invalid_json');
  const param = pathOf(issue.path);
  const missing = issue.code === 'invalid_type' && valueAt(body, issue.path) === undefined;
  if (missing) {
    throw invalidParameter(param, `Missing required parameter: '${param}'.`, 'missing_required_parameter');
  }
  throw invalidParameter(param, `Invalid value for '${param}': ${issue.message}.`);
}

/** What is known but not offered is refused by name, unless it asks for what happens anyway. */
export function refuseUnsupported(body: Record<string, unknown>): void {
  const responseFormat = body.response_format as { type?: string } | null | undefined;
  if (responseFormat && responseFormat.type !== 'text') {
    throw unsupported('response_format', `response_format '${responseFormat.type}' is not offered; only 'text' is.`);
  }
  const textFormat = (body.text as { format?: { type?: string } } | null | undefined)?.format;
  if (textFormat && textFormat.type !== 'text') {
    throw unsupported('text.format', `text.format '${textFormat.type}' is not offered; only 'text' is.`);
  }
  if (body.logit_bias && Object.keys(body.logit_bias).length > 0) {
    throw unsupported('logit_bias', 'logit_bias is not offered.');
  }
  for (const field of ['echo', 'suffix', 'previous_response_id', 'conversation', 'background', 'audio', 'functions']) {
    if (body[field]) throw unsupported(field, `'${field}' is not offered by this server.`);
  }
  if (typeof body.best_of === 'number' && body.best_of !== (body.n ?? 1)) {
    throw unsupported('best_of', 'best_of other than n is not offered.');
  }
}

function pathOf(path: PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text ? `${text}.${String(key)}` : String(key);
  }, '');
}

function valueAt(value: unknown, path: PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], value);
}
