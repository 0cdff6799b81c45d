import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { composeConfig, openTable, type rewards, train } from 'verlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cosine, openEmbedder } from './embeddings.ts';
import { prepare } from './prepare.mjs';
import { compute_score, formatScore, sharedWords, startAfter } from './reward.ts';

const here = import.meta.dirname;
const folder = mkdtempSync(path.join(tmpdir(), 'verlet-story-'));
let files: { model: string; embedder: string; train: string; test: string };
beforeAll(async () => {
  files = await prepare(folder);
});
afterAll(() => rmSync(folder, { recursive: true }));

function configWith(...overrides: string[]) {
  return composeConfig({
    kind: 'ppo',
    files: ['grpo-lora.yaml', 'tiny.yaml'].map((file) => path.join(here, file)),
    overrides: [
      `data.train_files=${files.train}`,
      `data.val_files=${files.test}`,
      `data.format_prompt=${path.join(here, 'story.jinja')}`,
      `actor_rollout_ref.model.path=${files.model}`,
      `custom_reward_function.path=${path.join(here, 'reward.ts')}`,
      `custom_reward_function.reward_kwargs.embeddings.folder=${files.embedder}`,
      'trainer.logger=[]',
      'trainer.save_freq=-1',
      ...overrides,
    ],
  }).config;
}

describe('story', () => {
  it('converts conversations to a row per turn, with the story apart', async () => {
    const table = await openTable(files.train);
    expect(table.numRows).toBe(256);
    const row = (await table.row(1)) as Record<string, string>;
    expect(row.story_content).toMatch(/^ Story: \w+ has a \w+ in the \w+\.$/);
    expect(row.system_prompt).toContain(row.story_content);
    expect(row.user_input).toMatch(/^I /);
    await table.close();
  });

  it('scores the format in three steps', () => {
    expect(formatScore('<think> a </think> <story> b </story>')).toBe(1);
    expect(formatScore('<story> b </story>')).toBe(0.5);
    expect(formatScore('b')).toBe(0);
    const decode = (ids: ArrayLike<number>) => Array.from(ids, (id) => String.fromCharCode(id)).join('');
    const ids = [...'ab<story>cd'].map((letter) => letter.charCodeAt(0));
    expect(startAfter(ids, '<story>', decode)).toBe(9);
    expect(startAfter(ids, '</story>', decode)).toBe(0);
    expect(sharedWords('In the cave.', 'in THE old cave')).toBeCloseTo(6 / 7);
    expect(sharedWords('', 'cave')).toBe(0);
  });

  it('embeds through an endpoint and from a folder', async () => {
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (part) => {
        body += part;
      });
      request.on('end', () => {
        const { input } = JSON.parse(body) as { input: string[] };
        const data = input.map((text, index) => ({ index, embedding: [text.length, 1] })).reverse();
        response.end(JSON.stringify({ data }));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/embeddings`;
    const [a, b] = await (await openEmbedder({ url, model: 'm' })).embed(['', 'xx']);
    expect(cosine(a!, b!)).toBeCloseTo(1 / Math.sqrt(5));
    server.close();
    const local = await openEmbedder({ folder: files.embedder });
    const [asked, told, other, cheat] = await local.embed([
      ' Story: Max has a key in the garden. I walk on.',
      'In the dark garden you walk on with the key.',
      'In the dark cave you walk on with the coin.',
      'In the rope.',
    ]);
    expect(cosine(asked!, asked!)).toBeCloseTo(1);
    expect(cosine(asked!, told!)).toBeGreaterThan(0.8);
    expect(cosine(asked!, other!)).toBeLessThan(0.5);
    expect(cosine(asked!, cheat!)).toBeLessThan(0.5);
  });

  it('what the story adds is measured in one batch, and equals scoring both prompts', async () => {
    const gaps: number[] = [];
    const flows: number[] = [];
    await train({
      config: configWith('trainer.total_training_steps=1', `trainer.default_local_dir=${folder}/measured`),
      rewardNeeds: ['entropy', 'log_probs'],
      reward: async (input, _options, context) => {
        const options = {
          r: 'story',
          embeddings: { folder: files.embedder },
          entropy_target: 0.15,
          min_tokens: 20,
        } as const;
        const [scored] = await compute_score([input], options, context);
        const without = (input.prompt ?? []).map((message) => ({
          ...message,
          content: String(message.content).replace(String(input.story_content), ''),
        }));
        const responseIds = input.response_ids!;
        const [withR, withoutR] = await context.scorePolicy([
          { promptIds: input.prompt_ids!, responseIds },
          { promptIds: context.encodePrompt(without), responseIds },
        ]);
        const gains = Array.from(withR!.logProbs, (value, k) => value - withoutR!.logProbs[k]!);
        const flow = Math.tanh(gains.reduce((sum, gain) => sum + gain, 0) / Math.max(20, gains.length));
        gaps.push(Math.abs(flow - scored!.information));
        flows.push(flow);
        return scored as rewards.RewardResult;
      },
    });
    expect(Math.max(...gaps)).toBeLessThan(1e-4);
    // The story names thing and place: without it they cannot be known.
    expect(flows.reduce((sum, flow) => sum + flow, 0) / flows.length).toBeGreaterThan(0.05);
  });

  it.each(['story', 'reasoning'])('GRPO with an adapter raises the reward, R is the %s', async (r) => {
    const steps: Record<string, number>[] = [];
    await train({
      config: configWith(
        `custom_reward_function.reward_kwargs.r=${r}`,
        `trainer.total_training_steps=${r === 'story' ? 10 : 2}`,
        `trainer.default_local_dir=${folder}/${r}`,
      ),
      trackers: [{ name: 'test', log: (metrics) => void steps.push({ ...metrics }) }],
    });
    const over = (name: string, part: Record<string, number>[]) =>
      part.reduce((sum, metrics) => sum + metrics[name]!, 0) / part.length;
    expect(over('reward/error_count', steps.slice(1))).toBe(0);
    expect(steps.at(-1)!['actor/grad_norm']).toBeGreaterThan(0);
    if (r === 'reasoning') return;
    const trained = steps.filter((metrics) => 'actor/grad_norm' in metrics);
    const rise = (name: string) => over(name, trained.slice(-3)) - over(name, trained.slice(0, 3));
    expect(rise('critic/score/mean')).toBeGreaterThan(0.2);
    // Not rewarded: it rises because stories become better, not because the reward is cheated.
    expect(rise('reward/target')).toBeGreaterThan(0.05);
    const [before, after] = [steps[0]!, steps.at(-1)!];
    expect(after['val-core/story/reward/mean@1']).toBeGreaterThan(before['val-core/story/reward/mean@1']! + 0.2);
    expect(after['val-aux/story/target/mean@1']).toBeGreaterThan(before['val-aux/story/target/mean@1']!);
  });
});
