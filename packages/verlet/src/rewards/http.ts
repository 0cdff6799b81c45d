import { RewardError } from './types.js';

export interface RetryOptions {
  /** Deadline of one try. */
  request_timeout_s?: number;
  /** Deadline over all tries. */
  total_timeout_s?: number;
  max_retries?: number;
  /** Wait before the first retry; it doubles with each. */
  retry_delay_s?: number;
  headers?: Record<string, string>;
}

const retriable = new Set([408, 409, 425, 429, 500, 502, 503, 504]);

/** Seconds of a `Retry-After` header, as a number or as a date. */
function retryAfter(header: string | null): number | undefined {
  if (!header) return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

interface Attempt {
  value?: unknown;
  problem?: string;
  isFinal?: boolean;
  waitSeconds?: number;
}

async function attempt(url: string, body: string, options: RetryOptions, timeoutMs: number): Promise<Attempt> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...options.headers },
      body,
      signal: AbortSignal.timeout(Math.max(1, timeoutMs)),
    });
    const text = await response.text();
    if (!response.ok) {
      const waitSeconds = retryAfter(response.headers.get('retry-after'));
      return {
        problem: `HTTP ${response.status}: ${text.slice(0, 200)}`,
        isFinal: !retriable.has(response.status),
        waitSeconds,
      };
    }
    return { value: JSON.parse(text) };
  } catch (error) {
    if (error instanceof SyntaxError) return { problem: 'the answer is not JSON' };
    if (error instanceof Error && error.name === 'TimeoutError')
      return { problem: `no answer within ${timeoutMs / 1000} s` };
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
    return { problem: `${error instanceof Error ? error.message : error}${cause}` };
  }
}

/** POSTs JSON; retries what may pass (network errors, deadlines, 429, 5xx) until the retries or the time are used up. */
export async function postJson(url: string, body: unknown, options: RetryOptions = {}): Promise<unknown> {
  const { request_timeout_s = 60, total_timeout_s = 300, max_retries = 3, retry_delay_s = 1 } = options;
  const endsAt = performance.now() + total_timeout_s * 1000;
  const text = JSON.stringify(body);
  for (let tries = 0; ; tries++) {
    const left = endsAt - performance.now();
    const result = await attempt(url, text, options, Math.min(request_timeout_s * 1000, left));
    if (!result.problem) return result.value;
    const wait = (result.waitSeconds ?? retry_delay_s * 2 ** tries) * 1000;
    if (result.isFinal || tries >= max_retries || performance.now() + wait >= endsAt) {
      throw new RewardError(`POST ${url} failed after ${tries + 1} ${tries ? 'tries' : 'try'}: ${result.problem}`);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
