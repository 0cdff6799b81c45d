/** `skip.rollout`: rollouts kept on disk, so that what comes after them can be tried again and again without sampling. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { type PpoConfig, UserError } from '../config/index.js';
import { expandHome } from '../config/paths.js';
import { type DataProto, loadDataProto, saveDataProto } from '../protocol/index.js';
import type { ActorGroup } from './ppo.js';

type Sampler = Pick<ActorGroup, 'generateSequences'>;

/**
 * The same group; in the steps concerned, training rollouts are read where they were stored and stored where they were not.
 * They are found by what was asked (prompts, sampling, noise) and by the model's name, not by its weights: a stored rollout is
 * that of whatever the weights were when it was sampled.
 */
export function withStoredRollouts<Group extends Sampler>(actor: Group, config: PpoConfig): Group {
  const { enable, steps, action } = config.skip.rollout;
  if (!enable) return actor;
  if (action !== 'cache') throw new UserError(`skip.rollout.action is '${action}'; there is only 'cache'`);
  const generateSequences = async (batch: DataProto): Promise<DataProto> => {
    const step = batch.metaInfo.global_steps as number;
    const applies = batch.metaInfo.validate !== true && (steps.length === 0 || steps.includes(step));
    if (!applies) return actor.generateSequences(batch);
    const folder = folderOf(config, batch, step);
    if (existsSync(path.join(folder, 'batch.json'))) return loadDataProto(folder);
    const generated = await actor.generateSequences(batch);
    saveDataProto(generated, folder);
    return generated;
  };
  return new Proxy(actor, {
    get(target, key) {
      if (key === 'generateSequences') return generateSequences;
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

function folderOf(config: PpoConfig, batch: DataProto, step: number): string {
  const { trainer, skip, actor_rollout_ref: policy } = config;
  const asked = [
    policy.model.path,
    policy.rollout.prompt_length,
    policy.rollout.response_length,
    batch.column('agent_row'),
  ];
  const text = JSON.stringify(asked, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  const key = createHash('sha256').update(text).digest('hex').slice(0, 12);
  const run = `${trainer.project_name}_${trainer.experiment_name}`.replaceAll(/[^\w.-]+/g, '-');
  return path.join(expandHome(skip.rollout.dump_dir), run, `step_${step}-${key}`);
}
