import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { byteTokenizer, END, VOCAB_SIZE } from '../../test/rollout/byte-tokenizer.js';
import { type FlakyProxy, type Mishap, startFlakyProxy } from '../../test/rollout/flaky-proxy.js';
import { ScriptedEngine } from '../../test/rollout/scripted-engine.js';
import { HttpEngine, HttpEngineError, type HttpEngineOptions } from './http-engine.js';
import { type RunningServer, startServer } from './server/index.js';
import type { TokenEvent } from './types.js';

const ids = (text: string) => [...Buffer.from(text)];
const ANSWER = 'a real answer, öäü.';

/** Answers `Q?` with ANSWER, and goes on where a prompt already holds part of it. */
const script = (_: string, _sample: number, promptIds: number[]) =>
  ids(ANSWER).slice(promptIds.indexOf(63) === -1 ? 0 : promptIds.length - promptIds.indexOf(63) - 1);

let behind: ScriptedEngine;
let server: RunningServer;
let proxy: FlakyProxy;
let engine: HttpEngine;

const connect = (options: Partial<HttpEngineOptions> = {}) =>
  HttpEngine.connect({ baseUrl: `${proxy.url}/v1`, retryDelayMs: 1, endTokenIds: [END], ...options });

beforeEach(async () => {
  behind = new ScriptedEngine(script);
  server = await startServer({
    model: 'tiny',
    engine: behind,
    tokenizer: byteTokenizer,
    vocabSize: VOCAB_SIZE,
    control: true,
  });
  proxy = await startFlakyProxy(server.url);
  engine = await connect();
});

afterEach(async () => {
  await engine.close();
  await proxy.close();
  await server.close({ deadlineMs: 0 });
});

const withoutIds = ({ id, ...output }: Awaited<ReturnType<HttpEngine['submit']>['output']>) => output;

describe('against a server that behaves', () => {
  it('learns model and context length', () => {
    expect(engine).toMatchObject({ model: 'tiny', maxModelLength: 4096, weightVersion: 0 });
  });

  it.each([
    ['everything default', {}],
    ['cut by length', { maxTokens: 5 }],
    ['stop token', { stopTokenIds: [46] }],
    ['stop string', { stop: ['real'] }],
    ['alternatives', { topLogProbs: 3, maxTokens: 4 }],
  ])('gives what the engine behind the server gives: %s', async (_, sampling) => {
    const request = { promptIds: ids('Q?'), sampling: { seed: 1, ...sampling } };
    const remote = await engine.submit(request).output;
    const direct = await behind.submit(request).output;
    const expected = withoutIds(direct);
    if (!('topLogProbs' in sampling)) delete expected.topLogProbs;
    expect(withoutIds(remote)).toEqual(expected);
  });

  it('carries every sampling parameter over the wire', async () => {
    const sampling = {
      temperature: 0.7,
      topK: 20,
      topP: 0.9,
      minP: 0.05,
      repetitionPenalty: 1.2,
      presencePenalty: 0.1,
      frequencyPenalty: -0.1,
      stopTokenIds: [7],
      stop: ['zzz'],
      ignoreEos: true,
      minTokens: 2,
      maxTokens: 9,
      seed: 99,
      topLogProbs: 2,
    };
    await engine.submit({ promptIds: ids('Q?'), sampling }).output;
    expect(behind.requests[0]!.sampling).toEqual(sampling);
  });

  it('streams tokens as they come, to several readers', async () => {
    const generation = engine.submit({ promptIds: ids('Q?') });
    const read = async () => {
      const events: TokenEvent[] = [];
      for await (const event of generation) events.push(event);
      return events.map((event) => event.tokenId);
    };
    const [first, second] = await Promise.all([read(), read()]);
    expect(first).toEqual([...ids(ANSWER), END]);
    expect(second).toEqual(first);
  });

  it('gives the samples of a prompt seeds of their own', async () => {
    const submit = (sampleIndex: number) =>
      engine.submit({ promptIds: ids('Q?'), sampleIndex, sampling: { seed: 5 } }).output;
    await Promise.all([submit(0), submit(1), submit(2), submit(1)]);
    const seeds = proxy.bodies.map((body) => body.seed);
    expect(seeds[0]).toBe(5);
    expect(new Set(seeds).size).toBe(3);
  });

  it('returns what was sampled when aborted by id, by signal or by close', async () => {
    behind.hangAfter = 4;
    const signal = new AbortController();
    const byId = engine.submit({ id: 'one', promptIds: ids('Q?') });
    const bySignal = engine.submit({ promptIds: ids('Q?'), signal: signal.signal });
    const byClose = engine.submit({ promptIds: ids('Q?') });
    for (const generation of [byId, bySignal, byClose]) {
      let seen = 0;
      for await (const _ of generation) if (++seen === 4) break;
    }
    expect(() => engine.submit({ id: 'one', promptIds: ids('Q?') })).toThrow(/already running/);
    engine.abort('one');
    signal.abort();
    await engine.close();
    for (const generation of [byId, bySignal, byClose]) {
      const output = await generation.output;
      expect(output).toMatchObject({ finishReason: 'abort', tokenIds: ids(ANSWER).slice(0, 4) });
      expect(output.logProbs).toHaveLength(4);
    }
    await vi.waitFor(() =>
      expect(behind.outputs.map((output) => output.finishReason)).toEqual(['abort', 'abort', 'abort']),
    );
    expect(() => engine.submit({ promptIds: ids('Q?') })).toThrow(/closed/);
  });

  it('counts weight versions, after the weights were brought over', async () => {
    const transferred: number[] = [];
    const training = await connect({ transferWeights: async (version) => void transferred.push(version) });
    const before = await training.submit({ promptIds: ids('Q?'), sampling: { maxTokens: 2 } }).output;
    await training.updateWeights();
    const after = await training.submit({ promptIds: ids('Q?'), sampling: { maxTokens: 2 } }).output;
    expect([before.weightVersions, after.weightVersions]).toEqual([
      [0, 0],
      [1, 1],
    ]);
    expect(transferred).toEqual([1]);
    expect(behind.weightVersion).toBe(1);
    await training.close();
  });

  it('puts the server to sleep, holds requests meanwhile, and wakes it', async () => {
    await engine.sleep();
    expect(behind.isAsleep).toBe(true);
    const waiting = engine.submit({ promptIds: ids('Q?') });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(behind.requests).toHaveLength(0);
    await engine.wake();
    expect(behind.isAsleep).toBe(false);
    expect((await waiting.output).finishReason).toBe('stop');
  });

  it('sleeps without the server’s help where it offers none', async () => {
    const plain = await startServer({ model: 'tiny', engine: behind, tokenizer: byteTokenizer });
    const remote = await HttpEngine.connect({ baseUrl: plain.url });
    await remote.sleep();
    const waiting = remote.submit({ promptIds: ids('Q?') });
    await remote.updateWeights();
    await remote.wake();
    expect((await waiting.output).weightVersions[0]).toBe(1);
    await remote.close();
    await plain.close();
  });

  it('keeps to its concurrency', async () => {
    const narrow = await connect({ maxConcurrency: 2 });
    let most = 0;
    const submit = behind.submit.bind(behind);
    let running = 0;
    behind.submit = (request) => {
      most = Math.max(most, ++running);
      const generation = submit(request);
      void generation.output.finally(() => running--);
      return generation;
    };
    await Promise.all(Array.from({ length: 10 }, () => narrow.submit({ promptIds: ids('Q?') }).output));
    expect(most).toBeLessThanOrEqual(2);
    await narrow.close();
  });
});

describe('against a server that does not', () => {
  const expected = [...ids(ANSWER), END];

  it('continues an answer that broke off instead of sampling it anew', async () => {
    proxy.plan.push({ kind: 'cut', afterEvents: 5 });
    const output = await engine.submit({ promptIds: ids('Q?'), sampling: { seed: 3, maxTokens: 100, minTokens: 6 } })
      .output;
    expect(output.tokenIds).toEqual(expected);
    expect(output.logProbs).toHaveLength(expected.length);
    const sampled = proxy.bodies[1].prompt.length - 2;
    expect(sampled).toBeGreaterThanOrEqual(5);
    expect(proxy.bodies[1].prompt).toEqual([...ids('Q?'), ...expected.slice(0, sampled)]);
    expect(proxy.bodies[1].max_tokens).toBe(100 - sampled);
    expect(proxy.bodies[1].min_tokens ?? 0).toBe(Math.max(0, 6 - sampled));
    expect(proxy.bodies[1].seed).not.toBe(3);
  });

  it('loses no token and doubles none, whatever goes wrong', async () => {
    const mishap: fc.Arbitrary<Mishap> = fc.oneof(
      fc.constant<Mishap>({ kind: 'reset' }),
      fc.constantFrom(429, 500, 502, 503).map((status): Mishap => ({ kind: 'status', status, retryAfter: '0' })),
      fc.integer({ min: 0, max: 25 }).map((afterEvents): Mishap => ({ kind: 'cut', afterEvents })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(mishap, { maxLength: 5 }), async (plan) => {
        proxy.plan.splice(0, proxy.plan.length, ...plan);
        const output = await engine.submit({ promptIds: ids('Q?') }).output;
        expect(output).toMatchObject({ tokenIds: expected, finishReason: 'stop', stopReason: END });
      }),
      { numRuns: 25 },
    );
  });

  it('does not continue what cannot be continued, and says so', async () => {
    proxy.plan.push({ kind: 'cut', afterEvents: 5 });
    const output = engine.submit({ promptIds: ids('Q?'), sampling: { stop: ['zzz'] } }).output;
    await expect(output).rejects.toThrow(/broke off after \d+ tokens and cannot be continued/);
  });

  it('gives up after its retries, with the server’s words', async () => {
    const impatient = await connect({ maxRetries: 2 });
    proxy.plan.push(...Array.from({ length: 5 }, (): Mishap => ({ kind: 'status', status: 503, retryAfter: '0' })));
    const error = await impatient.submit({ promptIds: ids('Q?') }).output.catch((reason) => reason);
    expect(error).toBeInstanceOf(HttpEngineError);
    expect(error).toMatchObject({ status: 503, message: expect.stringContaining('overloaded') });
    expect(proxy.bodies).toHaveLength(3);
    await impatient.close();
  });

  it('does not retry what is the caller’s fault', async () => {
    proxy.plan.push({ kind: 'status', status: 400 });
    await expect(engine.submit({ promptIds: ids('Q?') }).output).rejects.toMatchObject({ status: 400 });
    expect(proxy.bodies).toHaveLength(1);
  });

  it('takes silence for a failure', async () => {
    const alert = await connect({ idleTimeoutMs: 1000 });
    proxy.plan.push({ kind: 'silence', afterEvents: 3 });
    expect((await alert.submit({ promptIds: ids('Q?') }).output).tokenIds).toEqual(expected);
    await alert.close();
  });

  it('keeps the deadline', async () => {
    const hurried = await connect({ timeoutMs: 1500 });
    behind.hangAfter = 3;
    await expect(hurried.submit({ promptIds: ids('Q?') }).output).rejects.toThrow(
      /not finished within 1500 ms; 3 tokens had come/,
    );
    await hurried.close();
  });

  it('fails the iteration as well as the output', async () => {
    proxy.plan.push({ kind: 'status', status: 400 });
    const generation = engine.submit({ promptIds: ids('Q?') });
    await expect(async () => {
      for await (const _ of generation);
    }).rejects.toBeInstanceOf(HttpEngineError);
  });

  it('refuses prompts beyond the context and bad parameters before asking', async () => {
    expect(() => engine.submit({ promptIds: new Int32Array(4096) })).toThrow(
      /4096 tokens, the model's context is 4096/,
    );
    expect(() => engine.submit({ promptIds: [] })).toThrow(/empty/);
    expect(() => engine.submit({ promptIds: [1], sampling: { topP: 2 } })).toThrow(/topP is 2/);
    expect(proxy.bodies).toHaveLength(0);
  });

  it('says what the server lacks', async () => {
    await expect(connect({ model: 'other' })).rejects.toThrow(/does not serve other; it lists: tiny/);
    await expect(HttpEngine.connect({ baseUrl: 'http://127.0.0.1:9', maxRetries: 1, retryDelayMs: 1 })).rejects.toThrow(
      /cannot reach/,
    );
  });
});
