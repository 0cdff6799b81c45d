import { postJson, type RetryOptions } from '../http.js';
import { type Clock, RateLimiter, type RateLimits } from '../rate-limiter.js';
import { RewardError, type RewardMessage } from '../types.js';
import { JudgeCache } from './cache.js';

export interface ChatClientOptions extends RetryOptions, RateLimits {
  /** An OpenAI-compatible endpoint, with its version: `http://127.0.0.1:8000/v1`. */
  base_url: string;
  model: string;
  /** The environment variable that holds the key; keys do not belong in configuration files. */
  api_key_env?: string;
  temperature?: number;
  max_tokens?: number;
  /** A JSON-lines file that keeps verdicts between runs. */
  cache_path?: string;
  /** What a call is expected to cost against `max_tpm`, besides its prompt. */
  estimated_completion_tokens?: number;
}

interface ChatReply {
  choices?: { message?: { content?: string | null } }[];
}

/** Asks a chat model, under rate limits, with retries, and never the same thing twice. */
export class ChatClient {
  readonly cache: JudgeCache;
  private readonly limiter: RateLimiter;
  private readonly underWay = new Map<string, Promise<string>>();

  constructor(
    private readonly options: ChatClientOptions,
    clock?: Clock,
  ) {
    if (!URL.canParse(options.base_url))
      throw new TypeError(`judge: base_url is not a URL: ${JSON.stringify(options.base_url)}`);
    this.cache = new JudgeCache(options.cache_path);
    this.limiter = new RateLimiter({ ...options, max_concurrent: options.max_concurrent ?? 8 }, clock);
  }

  /** Asks, and reads the answer with `read`; only an answer that `read` accepts is remembered. */
  async ask<T>(messages: readonly RewardMessage[], read: (answer: string) => T): Promise<T> {
    const { model, temperature = 0, max_tokens = 1024 } = this.options;
    const request = { model, messages, temperature, max_tokens };
    const key = JudgeCache.key({ url: this.options.base_url, ...request });
    const known = this.cache.get(key);
    if (known !== undefined) return read(known);
    let answer = this.underWay.get(key);
    if (!answer) {
      answer = this.send(request).finally(() => this.underWay.delete(key));
      this.underWay.set(key, answer);
    }
    const text = await answer;
    const value = read(text);
    this.cache.set(key, text);
    return value;
  }

  private async send(request: { messages: readonly RewardMessage[] }): Promise<string> {
    const { api_key_env: name, headers, estimated_completion_tokens: completion = 500 } = this.options;
    const key = name ? process.env[name] : undefined;
    if (name && !key) throw new RewardError(`judge: the environment variable ${name} (api_key_env) is not set`);
    const authorization: Record<string, string> = key ? { authorization: `Bearer ${key}` } : {};
    const promptTokens = Math.ceil(JSON.stringify(request.messages).length / 4);
    const url = `${this.options.base_url.replace(/\/$/, '')}/chat/completions`;
    const reply = (await this.limiter.run(promptTokens + completion, () =>
      postJson(url, request, { ...this.options, headers: { ...headers, ...authorization } }),
    )) as ChatReply | null;
    const content = reply?.choices?.[0]?.message?.content;
    if (typeof content !== 'string') throw new RewardError(`judge: ${url} answered without a message`);
    return content;
  }
}
