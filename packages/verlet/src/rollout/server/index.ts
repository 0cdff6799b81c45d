/**
 * An OpenAI-compatible server on an engine: `/v1/models`, `/v1/completions`, `/v1/chat/completions`, `/v1/responses`,
 * `/health`, `/metrics`; and the same under `/r/{rolloutId}` for agents whose rollouts are recorded.
 */
export { createApp, type ServerApp } from './app.js';
export { withCallHints } from './call-hints.js';
export { ApiError } from './errors.js';
export { type ListenOptions, type RunningServer, startServer } from './listen.js';
export type {
  CapturedTurn,
  CaptureSession,
  ChatMessage,
  ParsedTurn,
  ResolveSession,
  ServerOptions,
  ServerTokenizer,
  ToolCallParser,
  ToolSchema,
} from './types.js';
