import type { Scorer } from '../functions/scorer.js';
import { RewardError, type RewardManager } from '../types.js';
import { type BatchOptions, BatchRewardManager } from './batch.js';
import { type DapoOptions, DapoRewardManager } from './dapo.js';
import { type HybridOptions, HybridRewardManager } from './hybrid.js';
import { type LimitedOptions, LimitedRewardManager } from './limited.js';
import { type NaiveOptions, NaiveRewardManager } from './naive.js';
import { type PrimeOptions, PrimeRewardManager } from './prime.js';
import { type RemoteOptions, RemoteRewardManager } from './remote.js';

/** Makes a manager from a scorer and the options under its name in the configuration. */
export type RewardManagerFactory = (scorer: Scorer, options: Record<string, unknown>) => RewardManager;

const factories = new Map<string, RewardManagerFactory>();

/** Adds a manager under a name for `reward_model.reward_manager`. */
export function registerRewardManager(name: string, factory: RewardManagerFactory): void {
  factories.set(name, factory);
}

export function createRewardManager(
  name: string,
  scorer: Scorer,
  options: Record<string, unknown> = {},
): RewardManager {
  const factory = factories.get(name);
  if (!factory) {
    throw new RewardError(
      `no reward manager ${JSON.stringify(name)}. Known: ${[...factories.keys()].sort().join(', ')}`,
    );
  }
  return factory(scorer, options);
}

registerRewardManager('naive', (scorer, options) => new NaiveRewardManager(scorer, options as NaiveOptions));
// GDPO's rewards are numbers beside the score; any manager keeps them, and verl's of this name is the plain one.
registerRewardManager('gdpo', (scorer, options) => new NaiveRewardManager(scorer, options as NaiveOptions, 'gdpo'));
registerRewardManager('batch', (scorer, options) => new BatchRewardManager(scorer, options as BatchOptions));
registerRewardManager('prime', (scorer, options) => new PrimeRewardManager(scorer, options as PrimeOptions));
registerRewardManager('limited', (scorer, options) => new LimitedRewardManager(scorer, options as LimitedOptions));
registerRewardManager('remote', (_, options) => new RemoteRewardManager(options as unknown as RemoteOptions));
registerRewardManager(
  'swedev',
  (_, options) => new RemoteRewardManager({ id_key: 'instance_id', ...(options as unknown as RemoteOptions) }),
);
registerRewardManager(
  'dapo',
  (scorer, options) =>
    new DapoRewardManager(new NaiveRewardManager(scorer, options as NaiveOptions), options as unknown as DapoOptions),
);
registerRewardManager(
  'hybrid',
  (scorer, options) =>
    new HybridRewardManager(new NaiveRewardManager(scorer, options as NaiveOptions), options as HybridOptions),
);
