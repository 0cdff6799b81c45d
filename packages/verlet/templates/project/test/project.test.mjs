// `npm test`: reward and tool by themselves, then everything together for a few steps, in a folder of its own and offline.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { agents, rewards } from 'verlet';

const project = fileURLToPath(new URL('..', import.meta.url));
const executable = fileURLToPath(new URL('./cli/main.js', import.meta.resolve('verlet')));
let folder;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'project-'));
  for (const name of ['make.mjs', 'reward.ts', 'run.yaml', 'sft.yaml', 'tools', 'tools.yaml', 'package.json'])
    await cp(path.join(project, name), path.join(folder, name), { recursive: true });
  await symlink(path.join(project, 'node_modules'), path.join(folder, 'node_modules'));
});
after(() => rm(folder, { recursive: true, force: true }));

const run = (...words) =>
  promisify(execFile)(process.execPath, words, { cwd: folder, timeout: 300_000, env: { ...process.env, CI: '1' } });

test('the reward likes right answers best', async () => {
  const reward = await rewards.loadRewardFunction({ path: path.join(project, 'reward.ts') });
  const score = async (solution_str) =>
    (await reward.scoreOne({ data_source: 'products', solution_str, ground_truth: '56', extra_info: {} })).score;
  assert.equal(await score('#### 56'), 1);
  assert.equal(await score('#### 57'), 0.1);
  assert.equal(await score('who knows'), 0);
  await reward.close();
});

test('the calculator multiplies, and refuses the rest', async () => {
  const { tools, close } = await agents.loadTools(path.join(project, 'tools.yaml'));
  const [calculator] = tools;
  assert.equal(await calculator.execute({ expression: '7*8' }, {}), 56);
  assert.equal((await calculator.check({ expression: '7*8' })).ok, true);
  assert.equal((await calculator.check({ expression: 'rm -rf /' })).ok, false);
  await close();
});

test('a few steps of fine-tuning and of reinforcement run', async () => {
  await run('make.mjs');
  await run(executable, 'sft', '--config', 'sft.yaml', 'trainer.total_training_steps=4', 'trainer.device=cpu');
  await run(executable, 'export', 'checkpoints/sft', 'models/start');
  const short = ['trainer.total_training_steps=2', 'data.val_files=null', 'trainer.device=cpu'];
  await run(executable, 'train', '--config', 'run.yaml', ...short);
  const lines = (await readFile(path.join(folder, 'checkpoints/run/metrics.jsonl'), 'utf8')).trim().split('\n');
  const last = JSON.parse(lines.at(-1));
  assert.equal(last.step, 2);
  assert.ok(Number.isFinite(last.data['critic/score/mean']));
});
