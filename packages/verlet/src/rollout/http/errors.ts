/** A request to the external server that did not work out, with what is needed to decide whether to try again. */
export class HttpEngineError extends Error {
  override readonly name = 'HttpEngineError';
  readonly status?: number;
  /** The server's own code, e.g. `context_length_exceeded`. */
  readonly code?: string;
  /** It may work if tried again: the server was busy, restarting, or unreachable. */
  readonly isTransient: boolean;
  readonly retryAfterMs?: number;

  constructor(
    message: string,
    details: { status?: number; code?: string; isTransient?: boolean; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, { cause: details.cause });
    this.status = details.status;
    this.code = details.code;
    this.isTransient = details.isTransient ?? false;
    this.retryAfterMs = details.retryAfterMs;
  }
}

const TRANSIENT_STATUS = new Set([408, 409, 425, 429, 500, 502, 503, 504]);

export async function errorOfResponse(response: Response, what: string): Promise<HttpEngineError> {
  const text = await response.text().catch(() => '');
  const { message, code } = readErrorBody(text);
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
  return new HttpEngineError(`${what}: HTTP ${response.status}: ${message}`, {
    status: response.status,
    code,
    isTransient: TRANSIENT_STATUS.has(response.status),
    retryAfterMs: Number.isFinite(seconds) ? seconds * 1000 : undefined,
  });
}

/** OpenAI's shape, vLLM's older flat one, or whatever a proxy wrote. */
function readErrorBody(text: string): { message: string; code?: string } {
  try {
    const body = JSON.parse(text) as { error?: { message?: string; code?: unknown } | string; message?: string };
    const error = typeof body.error === 'object' ? body.error : { message: body.error ?? body.message };
    const code = typeof error.code === 'string' ? error.code : undefined;
    return { message: error.message ?? text.slice(0, 500), code };
  } catch {
    return { message: text.slice(0, 500) || 'no message' };
  }
}
