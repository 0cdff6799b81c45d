import { expect, it } from 'vitest';
import { ResourceError, ResourcePool, ResourcePoolManager, Role } from './resource-pool.js';

it('counts the processes of machines', () => {
  const pool = new ResourcePool([2, 3]);
  expect(pool.worldSize).toBe(5);
  expect(pool.localRanks).toEqual([0, 1, 0, 1, 2]);
  expect(pool.localWorldSizes).toEqual([2, 2, 3, 3, 3]);
  expect(() => new ResourcePool([])).toThrow(ResourceError);
  expect(() => new ResourcePool([2, 0])).toThrow(/positive number of processes per machine, got \[2,0\]/);
});

it('gives roles their pools and says what does not fit', () => {
  const manager = new ResourcePoolManager(
    { train: [2, 2], judge: [1] },
    { [Role.ActorRolloutRef]: 'train', [Role.Critic]: 'train', [Role.RewardModel]: 'judge' },
  );
  expect(manager.nGpus).toBe(5);
  expect(manager.getResourcePool(Role.Critic)).toBe(manager.getResourcePool(Role.ActorRolloutRef));
  expect(manager.getResourcePool(Role.RewardModel).worldSize).toBe(1);
  expect(Object.fromEntries(manager.colocated())).toEqual({ train: ['actor_rollout_ref', 'critic'], judge: ['rm'] });
  manager.checkResourceAvailable(5);
  expect(() => manager.checkResourceAvailable(4)).toThrow(/asks for 5 devices, the machine has 4/);
  expect(() => manager.getResourcePool(Role.Env)).toThrow(/role env has no pool/);
  expect(() => new ResourcePoolManager({ train: [1] }, { [Role.Critic]: 'other' })).toThrow(
    /role critic wants the pool 'other'; there are: train/,
  );
});
