/** Who may ask, and on behalf of which rollout. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { ApiError } from './errors.js';
import type { CaptureSession, ServerOptions } from './types.js';

/**
 * The server's key opens everything. A rollout's own key opens that rollout only. Without a server key everybody who can
 * connect may ask (the server is then bound to loopback).
 */
export async function authorize(
  { apiKey: serverKey, resolveSession }: ServerOptions,
  { authorization, rolloutId }: { authorization?: string; rolloutId?: string },
): Promise<CaptureSession | undefined> {
  const apiKey = authorization?.match(/^Bearer\s+(.+)$/i)?.[1];
  const isServerKey = serverKey !== undefined && apiKey !== undefined && equal(apiKey, serverKey);
  const sessionOfKey = apiKey !== undefined && !isServerKey ? await resolveSession?.({ apiKey }) : undefined;
  if (serverKey !== undefined && !isServerKey && !sessionOfKey) {
    throw new ApiError(
      401,
      apiKey ? 'Incorrect API key.' : 'No API key was sent (Authorization: Bearer KEY).',
      null,
      'invalid_api_key',
    );
  }
  if (rolloutId === undefined) return sessionOfKey;
  const session = await resolveSession?.({ rolloutId, apiKey });
  if (!session)
    throw new ApiError(404, `There is no rollout '${rolloutId}' here (any more).`, null, 'rollout_not_found');
  if (sessionOfKey && sessionOfKey !== session) {
    throw new ApiError(403, `This API key belongs to another rollout than '${rolloutId}'.`, null, 'wrong_rollout');
  }
  return session;
}

/** Compared as digests: equal length, and no hint in the time it takes. */
function equal(left: string, right: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}
