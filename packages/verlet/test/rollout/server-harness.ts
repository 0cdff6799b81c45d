/** A running server on a scripted engine, fresh for every test, and plain fetch to talk to it. */
import { afterEach, beforeEach } from 'vitest';
import { hermes } from '../../src/agents/tools/parsers/hermes.js';
import { type ListenOptions, type RunningServer, startServer, withCallHints } from '../../src/rollout/server/index.js';
import { byteTokenizer, VOCAB_SIZE } from './byte-tokenizer.js';
import { ScriptedEngine } from './scripted-engine.js';

export class ServerHarness {
  engine!: ScriptedEngine;
  server!: RunningServer;

  constructor() {
    beforeEach(async () => {
      this.engine = new ScriptedEngine(() => 'Hello, wörld!');
      await this.start();
    });
    afterEach(() => this.server.close({ deadlineMs: 0 }));
  }

  async start(options: Partial<ListenOptions> = {}): Promise<void> {
    this.server = await startServer({
      model: 'tiny',
      engine: this.engine,
      tokenizer: byteTokenizer,
      vocabSize: VOCAB_SIZE,
      toolCallParser: withCallHints(hermes),
      ...options,
    });
  }

  async restart(options: Partial<ListenOptions>): Promise<void> {
    await this.server.close();
    await this.start(options);
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    return fetch(this.server.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      signal,
    });
  }

  // biome-ignore lint/suspicious/noExplicitAny: answers are checked by the expectations
  async postJson(path: string, body: unknown): Promise<any> {
    return (await this.post(path, body)).json();
  }
}

// biome-ignore lint/suspicious/noExplicitAny: as above
export async function events(response: Response): Promise<any[]> {
  const blocks = (await response.text()).split('\n\n').filter(Boolean);
  return blocks
    .map((block) => block.replace(/^event: .*\n/, '').slice('data: '.length))
    .map((data) => (data === '[DONE]' ? data : JSON.parse(data)));
}

export const ids = (text: string) => [...Buffer.from(text)];
