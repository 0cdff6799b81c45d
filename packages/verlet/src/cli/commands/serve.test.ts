import OpenAI from 'openai';
import { describe, expect, it, vi } from 'vitest';
import { byteTokenizer } from '../../../test/rollout/byte-tokenizer.js';
import { ScriptedEngine } from '../../../test/rollout/scripted-engine.js';
import { runCommandLine } from '../frame.js';
import { command, type ServedEngineOptions, serveModel } from './serve.js';

/** The command through the real frame; only the model is scripted. */
function serve(words: string[]) {
  const printed: string[] = [];
  const noted: string[] = [];
  const interrupt = new AbortController();
  const engine = new ScriptedEngine(() => 'At your service.');
  const loaded: [string, ServedEngineOptions][] = [];
  const closed = vi.spyOn(engine, 'close');
  const exit = runCommandLine(['serve', ...words], {
    io: { print: (text) => printed.push(text), note: (text) => noted.push(text) },
    signal: interrupt.signal,
    load: async () => ({
      ...command,
      run: (invocation) =>
        serveModel(invocation, async (name, options) => {
          loaded.push([name, options]);
          return { engine, tokenizer: byteTokenizer };
        }),
    }),
  });
  return { printed, noted, interrupt, engine, loaded, closed, exit };
}

describe('verlet serve', () => {
  it('serves under the name it was given, until Ctrl-C, and lets the engine go', async () => {
    const run = serve(['./models/tiny', '--port', '0', '--max-model-length', '512', '--api-key', 'secret']);
    await vi.waitFor(() => expect(run.printed).toHaveLength(1));
    const [, model, baseURL] = /^(\S+) at (http:\S+)$/.exec(run.printed[0]!)!;
    expect(model).toBe('tiny');
    expect(run.loaded).toEqual([['./models/tiny', expect.objectContaining({ maxModelLength: 512 })]]);
    const client = new OpenAI({ baseURL, apiKey: 'secret', maxRetries: 0 });
    const answer = await client.chat.completions.create({ model: 'tiny', messages: [{ role: 'user', content: 'Hi' }] });
    expect(answer.choices[0]!.message.content).toBe('At your service.');
    run.interrupt.abort();
    expect(await run.exit).toBe(0);
    expect(run.closed).toHaveBeenCalled();
    await expect(fetch(`${baseURL}/models`)).rejects.toThrow();
  });

  it.each([
    [['tiny', '--host', '0.0.0.0', '--port', '0'], 1, /refusing to listen on 0.0.0.0 without an API key/],
    [['tiny', '--port', 'eighty'], 2, /It must be a whole number/],
    [['tiny', '--port', ''], 2, /It must be a whole number/],
    [['tiny', '--port', '70000'], 2, /It must be at most 65535/],
    [['tiny', '--max-num-seqs', '0.5'], 2, /It must be a whole number/],
    [['tiny', '--tool-call-parser', 'morse'], 2, /hermes/],
    [['tiny', '--gpu-memory-utilization', '1.5'], 2, /at most 1/],
    [[], 2, /missing required argument 'model'/],
  ])('says what is wrong with %j', async (words, exitCode, message) => {
    const run = serve(words);
    expect(await run.exit).toBe(exitCode);
    expect(run.noted.join('\n')).toMatch(message);
  });

  it('says when the port is taken', async () => {
    const first = serve(['tiny', '--port', '0']);
    await vi.waitFor(() => expect(first.printed).toHaveLength(1));
    const port = /:(\d+)\//.exec(first.printed[0]!)![1]!;
    const second = serve(['tiny', '--port', port]);
    expect(await second.exit).toBe(1);
    expect(second.noted.join('\n')).toMatch(/EADDRINUSE/);
    first.interrupt.abort();
    await first.exit;
  });
});
