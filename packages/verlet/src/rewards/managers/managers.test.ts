import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { REWARD_MANAGERS } from '../../config/index.js';
import { createScorer, defaultScorer } from '../functions/scorer.js';
import type { Clock } from '../rate-limiter.js';
import { createRewardInput, type RewardInput, type RewardResult } from '../types.js';
import {
  createRewardManager,
  DapoRewardManager,
  HybridRewardManager,
  LimitedRewardManager,
  NaiveRewardManager,
  RemoteRewardManager,
  rewardMetrics,
  turnsOf,
} from './index.js';

const sample = (solution_str: string, extra: Partial<RewardInput> = {}): RewardInput =>
  createRewardInput({
    data_source: 'openai/gsm8k',
    solution_str,
    ground_truth: '5',
    response_ids: [1, 2, 3],
    ...extra,
  });

const scorerOf = (compute: (input: RewardInput) => RewardResult | Promise<RewardResult>) =>
  createScorer({ type: 'sequential', compute });

test.each(REWARD_MANAGERS)('%s, which the configuration knows, can be made', async (name) => {
  const manager = createRewardManager(name, defaultScorer(), {
    url: 'http://127.0.0.1:9',
    max_resp_len: 8,
    overlong_buffer_cfg: { enable: false },
  });
  await manager.close();
});

describe('what every manager keeps', () => {
  const samples = [sample('#### 5'), sample('#### 6', { response_ids: [1] }), sample('#### 5', { response_ids: [] })];
  const options = {
    dapo: { max_resp_len: 100, overlong_buffer_cfg: { len: 10, penalty_factor: 1 } },
    limited: { max_concurrent: 2 },
    prime: { workers: 1 },
  } as Record<string, Record<string, unknown>>;

  test.each(['naive', 'batch', 'prime', 'dapo', 'limited', 'hybrid'])(
    '%s: one result per sample, in order, on the last token',
    async (name) => {
      const manager = createRewardManager(name, defaultScorer(), options[name]);
      try {
        const results = await manager.score(samples);
        expect(results.map((result) => result.score)).toEqual([1, 0, 1]);
        expect(results.map((result) => result.tokenPosition)).toEqual([2, 0, -1]);
        expect(await manager.score([])).toEqual([]);
      } finally {
        await manager.close();
      }
    },
  );

  test.each(['naive', 'batch', 'dapo', 'limited', 'hybrid'])(
    '%s: an error is counted and warned about, never a silent zero',
    async (name) => {
      const warnings: string[] = [];
      const warn = (message: string) => void warnings.push(message);
      const scorer = scorerOf(({ solution_str }) => {
        if (solution_str === 'bad') throw new Error('reward exploded');
        return 1;
      });
      const manager = createRewardManager(name, scorer, { ...options[name], warn });
      const results = await manager.score([sample('good'), sample('bad')]);
      expect(results[1]!.error).toContain('reward exploded');
      expect(warnings.join()).toContain('reward exploded');
      expect(rewardMetrics(results)['reward/error_count']).toBeGreaterThan(0);
      const strict = createRewardManager(name, scorer, { ...options[name], strict: true });
      await expect(strict.score([sample('good'), sample('bad')])).rejects.toThrow(/reward exploded/);
    },
  );

  test('an unknown manager is an error that lists the known ones', () => {
    expect(() => createRewardManager('prim', defaultScorer())).toThrow(/prim.*batch.*naive/);
  });
});

describe('results', () => {
  test('numbers, verl objects and EasyR1 objects; extras become metrics', async () => {
    const replies: RewardResult[] = [2, { score: 1, acc: true, pred: 'x' }, { overall: 0.5, format: 1 }, true];
    const manager = new NaiveRewardManager(scorerOf(({ solution_str }) => replies[Number(solution_str)]!));
    const results = await manager.score(replies.map((_, index) => sample(String(index))));
    expect(results.map((result) => result.score)).toEqual([2, 1, 0.5, 1]);
    expect(results[1]!.extras).toEqual({ acc: true, pred: 'x' });
    expect(rewardMetrics(results)).toMatchObject({ 'reward/acc': 1, 'reward/format': 1, 'reward/error_count': 0 });
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, 'high', {}, null])('%j is no reward', async (reply) => {
    const manager = new NaiveRewardManager(
      scorerOf(() => reply as never),
      { warn: () => {} },
    );
    expect((await manager.score([sample('')]))[0]!.error).toMatch(/reward/);
  });

  test('lazy fields are computed only when a reward reads them, once', async () => {
    let computed = 0;
    const lazy = { entropy: () => [++computed] };
    const inputs = ['a', 'b'].map((text) =>
      createRewardInput({ data_source: '', solution_str: text, ground_truth: '' }, lazy),
    );
    const manager = new NaiveRewardManager(
      scorerOf((input) => (input.solution_str === 'b' ? input.entropy![0]! + input.entropy![0]! : 0)),
    );
    expect((await manager.score(inputs)).map((result) => result.score)).toEqual([0, 2]);
    expect(computed).toBe(1);
  });

  test('a call past its deadline is an error', async () => {
    const manager = new NaiveRewardManager(
      scorerOf(() => new Promise(() => {})),
      { timeout_s: 0.01, warn: () => {} },
    );
    expect((await manager.score([sample('')]))[0]!.error).toMatch(/longer than 0.01 s/);
  });
});

test('dapo: the penalty grows inside the buffer', async () => {
  const options = { max_resp_len: 10, overlong_buffer_cfg: { len: 4, penalty_factor: 1, log: true } };
  const manager = new DapoRewardManager(new NaiveRewardManager(scorerOf(() => 1)), options);
  const lengths = [5, 6, 8, 10];
  const results = await manager.score(lengths.map((length) => sample('', { response_ids: new Array(length).fill(0) })));
  expect(results.map((result) => result.score)).toEqual([1, 1, 0.5, 0]);
  expect(results[2]!.extras).toEqual({ overlong_reward: -0.5, overlong: true });
  const impossible = { max_resp_len: 10, overlong_buffer_cfg: { len: 0, penalty_factor: 1 } };
  expect(() => new DapoRewardManager(manager, impossible)).toThrow(/overlong_buffer.len/);
});

test('hybrid: turn scores sit on the last token of their turn', async () => {
  expect(turnsOf([1, 1, 0, 1, 0])).toEqual([
    { start: 0, end: 1 },
    { start: 3, end: 3 },
  ]);
  const inner = new NaiveRewardManager(scorerOf(() => 1));
  const input = sample('', { response_mask: [1, 1, 0, 1], turn_scores: [{ tokenPosition: 1, score: 0.5 }] });
  const [given] = await new HybridRewardManager(inner, { turn_weight: 2 }).score([input]);
  expect(given).toMatchObject({ score: 1, turnScores: [{ tokenPosition: 1, score: 1 }] });
  const [computed] = await new HybridRewardManager(inner, {
    turnReward: (_, turns) => turns.map((turn) => turn.start),
  }).score([input]);
  expect(computed!.turnScores).toEqual([
    { tokenPosition: 1, score: 0 },
    { tokenPosition: 3, score: 3 },
  ]);
});

test('limited: never more at once, never more in a minute than allowed', async () => {
  // Time passes only when somebody sleeps.
  let time = 0;
  const clock: Clock = {
    now: () => time,
    sleep: async (ms) => {
      time += ms;
    },
  };
  const starts: number[] = [];
  let running = 0;
  let most = 0;
  const scorer = scorerOf(async () => {
    starts.push(time);
    most = Math.max(most, ++running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    return 1;
  });
  const manager = new LimitedRewardManager(scorer, { max_concurrent: 3, max_rpm: 10, max_tpm: 1_000_000 }, clock);
  await manager.score(Array.from({ length: 25 }, () => sample('')));
  expect(most).toBe(3);
  // A full bucket of 10 at once, then one every six seconds.
  expect(starts.filter((start) => start < 6_000 - 1).length).toBe(10);
  for (const start of starts)
    expect(starts.filter((other) => other >= start && other < start + 60_000).length).toBeLessThanOrEqual(20);
  expect(time).toBeGreaterThanOrEqual(15 * 6_000 - 1);
});

describe('remote', () => {
  let server: Server;
  let url: string;
  const seen: { id: string; solution_str: string }[][] = [];
  let failuresLeft = 0;

  beforeAll(async () => {
    server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        const { samples } = JSON.parse(body) as { samples: { id: string; solution_str: string }[] };
        seen.push(samples);
        if (samples.some((one) => one.solution_str === 'hang')) return;
        if (failuresLeft-- > 0) return void response.writeHead(503).end('busy');
        if (samples.some((one) => one.solution_str === 'refuse')) return void response.writeHead(400).end('bad sample');
        const known = samples.filter((one) => one.solution_str !== 'lost').reverse(); // any order
        response.end(
          JSON.stringify({
            results: known.map(({ id, solution_str }) => ({ id, score: Number(solution_str), by: 'remote' })),
          }),
        );
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/score`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  const quick = { retry_delay_s: 0.001, warn: () => {} };

  test('batches, matches by id, keeps extras', async () => {
    const results = await new RemoteRewardManager({ url, batch_size: 2, ...quick }).score(
      ['1', '2', '3'].map((text) => sample(text)),
    );
    expect(results.map((result) => result.score)).toEqual([1, 2, 3]);
    expect(results[0]!.extras).toEqual({ by: 'remote' });
  });

  test('retries what may pass, with the same id', async () => {
    failuresLeft = 2;
    seen.length = 0;
    const input = sample('4', { extra_info: { instance_id: 'repo-17' } });
    const [result] = await new RemoteRewardManager({ url, id_key: 'instance_id', ...quick }).score([input]);
    expect(result!.score).toBe(4);
    expect(seen.length).toBe(3);
    expect(new Set(seen.map(([one]) => one!.id)).size).toBe(1);
    expect(seen[0]![0]!.id).toMatch(/^repo-17:/);
  });

  test('a refusal, a lost id, silence and a dead server are errors of their samples only', async () => {
    failuresLeft = 0;
    seen.length = 0;
    const manager = new RemoteRewardManager({ url, max_retries: 1, ...quick });
    const results = await manager.score(['1', 'refuse', 'lost'].map((text) => sample(text)));
    expect(results.map((result) => result.error === undefined)).toEqual([true, false, false]);
    expect(results[1]!.error).toMatch(/after 1 try: HTTP 400: bad sample/);
    expect(results[2]!.error).toMatch(/no result for id/);
    const impatient = new RemoteRewardManager({ url, request_timeout_s: 0.05, max_retries: 1, ...quick });
    expect((await impatient.score([sample('hang')]))[0]!.error).toMatch(/after 2 tries: no answer within/);
    const nobody = new RemoteRewardManager({ url: 'http://127.0.0.1:9/score', max_retries: 0, ...quick });
    expect((await nobody.score([sample('1')]))[0]!.error).toMatch(/after 1 try/);
  });
});
