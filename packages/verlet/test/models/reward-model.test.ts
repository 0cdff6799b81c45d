/** A sequence-classification folder with its tokenizer, as rewards use it. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openSafetensors, saveSafetensors, zeros } from '@verlet/torch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadRewardModel } from '../../src/models/index.js';
import { closedVocabulary } from '../../src/models/tokenizer/index.js';
import type { RewardModel } from '../../src/rewards/types.js';
import { fixtureFolder } from './fixture.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'verlet-reward-'));
  await cp(fixtureFolder('reward'), folder, { recursive: true });
  await rm(path.join(folder, 'expected.safetensors'));
  await closedVocabulary(['a b c d e f g'], {
    folder,
    spelling: 'characters',
    chatTemplate: '{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}',
  });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const conversation = (question: string, answer: string) => [
  { role: 'user', content: question },
  { role: 'assistant', content: answer },
];

describe('a reward model', () => {
  it('scores conversations, each as if it were alone, whatever the batch', async () => {
    const classifier = await loadRewardModel(folder, { maxBatchedTokens: 12 });
    const model: RewardModel = classifier;
    const conversations = [
      conversation('abc', 'def'),
      conversation('a', 'g'),
      conversation('abcdefg', 'gfedcba'),
      conversation('abc', 'deg'),
    ];
    const together = await model.scoreConversations(conversations);
    for (const [k, one] of conversations.entries()) {
      const [alone] = await model.scoreConversations([one]);
      expect(Math.abs(together[k]! - alone!)).toBeLessThan(1e-5);
    }
    expect(new Set(together.map((score) => score.toFixed(4))).size).toBe(4);
    expect(await model.scoreConversations([])).toEqual([]);
    await expect(model.scoreConversations([conversation('a', 'b'.repeat(300))])).rejects.toThrow(
      /conversation 0 has \d+ tokens, the model takes 256/,
    );
    classifier.dispose();
  });

  it('has one label', async () => {
    const other = await mkdtemp(path.join(tmpdir(), 'verlet-labels-'));
    await cp(folder, other, { recursive: true });
    const reader = openSafetensors(path.join(other, 'model.safetensors'));
    const weights = new Map(reader.names().map((name) => [name, reader.tensor(name).clone()]));
    weights.set('score.weight', zeros([3, 16]));
    saveSafetensors(path.join(other, 'model.safetensors'), weights);
    await expect(loadRewardModel(other)).rejects.toThrow(/3 labels/);
    await rm(other, { recursive: true });
  });
});
