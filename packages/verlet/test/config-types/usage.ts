/** Compiled, never run: what the types of configurations promise. A line marked as an error must be one. */
import {
  type ConfigOf,
  composeConfig,
  definePpoConfig,
  type PpoConfig,
  type SftConfig,
} from '../../src/config/index.js';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const holds = <_T extends true>(): void => {};

holds<Equal<PpoConfig['actor_rollout_ref']['rollout']['n'], number>>();
holds<Equal<PpoConfig['data']['train_files'], string | string[]>>();
holds<Equal<PpoConfig['data']['val_files'], string | string[] | null>>();
holds<Equal<PpoConfig['data']['truncation'], 'error' | 'left' | 'right' | 'middle'>>();
holds<Equal<PpoConfig['actor_rollout_ref']['actor']['optim']['betas'], [number, number]>>();
holds<Equal<ConfigOf<'sft'>, SftConfig>>();

const { config } = composeConfig({ kind: 'generation', overrides: [] });
holds<Equal<typeof config.data.n_samples, number>>();
// @ts-expect-error: the generation tree has no actor_rollout_ref
config.actor_rollout_ref;

definePpoConfig({ data: { train_files: ['a'] }, algorithm: { adv_estimator: 'grpo' } });
// @ts-expect-error: a misspelt key
definePpoConfig({ data: { train_file: 'a' } });
// @ts-expect-error: an estimator that does not exist
definePpoConfig({ algorithm: { adv_estimator: 'grop' } });
// @ts-expect-error: a number where text belongs
definePpoConfig({ trainer: { project_name: 3 } });
