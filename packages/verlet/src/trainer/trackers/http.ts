import { RefusedError } from './delivery.js';

export interface JsonRequest {
  url: string;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: unknown;
  timeoutSeconds?: number;
}

/** One JSON request with a deadline. What the server calls our mistake is a `RefusedError`, the rest may be tried again. */
export async function requestJson<T>({
  url,
  method = 'POST',
  headers,
  body,
  timeoutSeconds = 20,
}: JsonRequest): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutSeconds * 1000),
    });
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error };
    throw new Error(`cannot reach ${new URL(url).origin} (${cause?.message || message})`);
  }
  const text = await response.text();
  if (!response.ok) {
    const problem = `${new URL(url).pathname} answered ${response.status}: ${text.slice(0, 300)}`;
    const ours = response.status >= 400 && response.status < 500 && ![408, 425, 429].includes(response.status);
    throw ours ? Object.assign(new RefusedError(problem), { status: response.status, text }) : new Error(problem);
  }
  return (text ? JSON.parse(text) : {}) as T;
}
