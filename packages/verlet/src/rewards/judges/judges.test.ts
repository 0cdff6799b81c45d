import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { BatchRewardManager, NaiveRewardManager } from '../managers/index.js';
import { createRewardInput } from '../types.js';
import { createJudgeScorer, createRewardModelScorer, LlmJudge } from './index.js';
import { lastObjectWith } from './llm-judge.js';

interface ChatRequest {
  model: string;
  messages: { role: string; content: string }[];
}

let server: Server;
let base_url: string;
let requests: { body: ChatRequest; authorization: string | undefined }[] = [];
let answer: (request: ChatRequest) => { status?: number; text: string };

beforeAll(async () => {
  server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      const body = JSON.parse(text) as ChatRequest;
      requests.push({ body, authorization: request.headers.authorization });
      const reply = request.url === '/v1/chat/completions' ? answer(body) : { status: 404, text: 'no such path' };
      response.writeHead(reply.status ?? 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ choices: [{ message: { role: 'assistant', content: reply.text } }] }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});
afterAll(() => {
  server.close();
});
beforeEach(() => {
  requests = [];
});

const sample = (solution_str: string, uid = 'a') =>
  createRewardInput({
    data_source: 'story',
    solution_str,
    ground_truth: 'once',
    uid,
    prompt: [{ role: 'user', content: 'Tell a story' }],
  });

/** The responses in the order the judge reads them. */
const shown = (request: ChatRequest): string[] =>
  [...request.messages[1]!.content.matchAll(/<<<RESPONSE(?: \d+)? \w+\n([\s\S]*?)\nRESPONSE(?: \d+)? \w+>>>/g)].map(
    (match) => match[1]!,
  );

describe('by rubric', () => {
  test('scores on the scale, asks once for the same thing, sends the key', async () => {
    answer = (request) => ({ text: `Let me see {draft}. {"reason": "fine", "score": ${shown(request)[0]!.length}}` });
    process.env.VERLET_TEST_JUDGE_KEY = 'secret';
    const judge = new LlmJudge({
      base_url,
      model: 'judge',
      rubric: 'Longer is better.',
      api_key_env: 'VERLET_TEST_JUDGE_KEY',
    });
    const manager = new NaiveRewardManager(createJudgeScorer(judge));
    const results = await manager.score([sample('abcde'), sample('abcde'), sample('x'.repeat(50))]);
    expect(results.map((result) => result.score)).toEqual([0.5, 0.5, 1]);
    expect(results[0]!.extras).toEqual({ judge_reason: 'fine' });
    expect(requests.length).toBe(2);
    expect(requests[0]!.authorization).toBe('Bearer secret');
    expect(requests[0]!.body.messages[0]!.content).toContain('Longer is better.');
  });

  test('verdicts survive the run; unusable answers are not kept', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'verlet-judge-'));
    const options = { base_url, model: 'judge', rubric: 'r', cache_path: join(folder, 'cache.jsonl') };
    try {
      answer = () => ({ text: 'I would rather not.' });
      await expect(new LlmJudge(options).score(sample('s'))).rejects.toThrow(/gave no score/);
      answer = () => ({ text: '{"score": 10}' });
      expect((await new LlmJudge(options).score(sample('s'))).score).toBe(1);
      answer = () => ({ text: '{"score": 0}' });
      expect((await new LlmJudge(options).score(sample('s'))).score).toBe(1);
      expect(requests.length).toBe(2);
      expect(readFileSync(options.cache_path, 'utf8').trim().split('\n').length).toBe(1);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('a failing service is an error, a busy one is asked again', async () => {
    let busy = 1;
    answer = () => (busy-- > 0 ? { status: 429, text: '' } : { text: '{"score": 5}' });
    const judge = new LlmJudge({ base_url, model: 'judge', rubric: 'r', retry_delay_s: 0.001, max_retries: 1 });
    expect((await judge.score(sample('s'))).score).toBe(0.5);
    const lost = new LlmJudge({ base_url: `${base_url}/nowhere`, model: 'judge', rubric: 'r' });
    await expect(lost.score(sample('s'))).rejects.toThrow(/HTTP 404/);
    const keyless = new LlmJudge({ base_url, model: 'judge', rubric: 'r', api_key_env: 'VERLET_TEST_NO_SUCH_KEY' });
    await expect(keyless.score(sample('other'))).rejects.toThrow(/VERLET_TEST_NO_SUCH_KEY/);
    expect(() => new LlmJudge({ base_url, model: 'judge', rubric: ' ' })).toThrow(/rubric/);
  });
});

test('ranking: samples of one prompt against each other, wherever they stand in the batch', async () => {
  answer = (request) => {
    const order = shown(request).map((text, index) => ({ text, number: index + 1 }));
    order.sort((a, b) => b.text.length - a.text.length);
    return { text: `{"ranking": [${order.map(({ number }) => number).join(', ')}]}` };
  };
  const judge = new LlmJudge({ base_url, model: 'judge', rubric: 'Longer is better.' });
  const manager = new BatchRewardManager(createJudgeScorer(judge, 'ranking'));
  const results = await manager.score([
    sample('aa', 'p'),
    sample('b', 'q'),
    sample('aaaa', 'p'),
    sample('bbb', 'q'),
    sample('aaa', 'p'),
    sample('c', 'alone'),
  ]);
  expect(results.map((result) => result.score)).toEqual([0, 0, 1, 1, 0.5, 0.5]);
  expect(requests.length).toBe(2);
  answer = () => ({ text: '{"ranking": [1, 1]}' });
  await expect(judge.rank([sample('x'), sample('y')])).rejects.toThrow(/no ranking of 2/);
});

test('the last object with the key is found behind thoughts and braces', () => {
  expect(lastObjectWith('{"score": 1} no: {"score": 2, "reason": "a } b"} {x}', 'score')).toEqual({
    score: 2,
    reason: 'a } b',
  });
  expect(lastObjectWith('nothing', 'score')).toBeUndefined();
});

test('a reward model reads the conversation with the response at its end', async () => {
  const model = {
    name: 'rm',
    scoreConversations: async (all: readonly (readonly { content: unknown }[])[]) =>
      all.map((one) => String(one.at(-1)!.content).length),
  };
  const results = await new BatchRewardManager(createRewardModelScorer(model)).score([sample('abc')]);
  expect(results[0]).toMatchObject({ score: 3, extras: { rm_score: 3 } });
});
