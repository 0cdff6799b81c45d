/** The policy behind an OpenAI-compatible address on this machine: every rollout has a base URL and a key of its own. */
import { randomUUID } from 'node:crypto';
import type { CaptureSession } from '../agents/index.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import { type RunningServer, startServer } from '../rollout/server/index.js';
import type { Engine } from '../rollout/types.js';

/** Where one rollout finds its model; what an OpenAI client takes. */
export interface RolloutAddress {
  baseURL: string;
  apiKey: string;
}

export class PolicyEndpoint {
  private readonly byId = new Map<string, CaptureSession>();
  private readonly byKey = new Map<string, CaptureSession>();

  private constructor(private server: RunningServer | null = null) {}

  static async open(options: { engine: Engine; tokenizer: Tokenizer; model: string }): Promise<PolicyEndpoint> {
    const endpoint = new PolicyEndpoint();
    endpoint.server = await startServer({
      ...options,
      // Nobody is told this key: the endpoint serves rollouts and nobody else on this machine.
      apiKey: randomUUID(),
      resolveSession: ({ rolloutId, apiKey }) =>
        rolloutId === undefined ? endpoint.byKey.get(apiKey ?? '') : endpoint.byId.get(rolloutId),
    });
    return endpoint;
  }

  /** Opens an address for the rollout; `close` it when the program is over. */
  addressOf(session: CaptureSession): RolloutAddress & { close(): void } {
    const apiKey = `sk-${randomUUID()}`;
    this.byId.set(session.id, session);
    this.byKey.set(apiKey, session);
    return {
      baseURL: `${this.server!.url}/r/${session.id}/v1`,
      apiKey,
      close: () => {
        this.byId.delete(session.id);
        this.byKey.delete(apiKey);
      },
    };
  }

  async close(): Promise<void> {
    await this.server?.close({ deadlineMs: 1000 });
  }
}
