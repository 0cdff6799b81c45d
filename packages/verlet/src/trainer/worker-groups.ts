/** The workers of a run: actor and critic in the same processes, one per rank, started as the configuration says. */
import { buildInfo } from '@verlet/torch';
import { type PpoConfig, UserError, usesCritic } from '../config/index.js';
import {
  createColocatedWorkers,
  type GroupOptions,
  ResourcePoolManager,
  Role,
  rayLauncher,
  type WorkerGroup,
} from '../controller/index.js';
import { readConfigFile } from '../models/checkpoint.js';
import { resolveModel } from '../models/hub/index.js';
import { cudaObstacle } from '../rollout/cuda-runner.js';
import { ActorRolloutRefWorker } from '../workers/actor-rollout-ref.js';
import type { RolloutExtensions } from '../workers/agent-rollout.js';
import { CriticWorker } from '../workers/critic-worker.js';

export interface WorkerGroups {
  actor: WorkerGroup<typeof ActorRolloutRefWorker>;
  critic: WorkerGroup<typeof CriticWorker> | null;
  worldSize: number;
  close(): Promise<void>;
}

async function deviceOf(config: PpoConfig): Promise<string> {
  const wanted = config.trainer.device;
  if (wanted !== 'auto') return wanted;
  if (!buildInfo().cudaAvailable) return 'cpu';
  const obstacle = cudaObstacle(await readConfigFile(await resolveModel(config.actor_rollout_ref.model.path)));
  if (obstacle === null) return 'cuda';
  console.warn(`training on the CPU: ${obstacle}`);
  return 'cpu';
}

function checkResources(config: PpoConfig, device: string): number {
  const { nnodes, n_gpus_per_node: perNode, launcher } = config.trainer;
  if (nnodes > 1 && launcher !== 'ray')
    throw new UserError(
      `trainer.nnodes=${nnodes}: trainer.launcher=${launcher} starts ranks on this machine only; use trainer.launcher=ray for several`,
    );
  if (launcher === 'inline' && perNode > 1)
    throw new UserError(`trainer.n_gpus_per_node=${perNode} wants ${perNode} processes; use trainer.launcher=process`);
  const pools = new ResourcePoolManager(
    { global_pool: new Array<number>(nnodes).fill(perNode) },
    { [Role.ActorRolloutRef]: 'global_pool', [Role.Critic]: 'global_pool' },
  );
  // Ray knows what its cluster has.
  if (device === 'cuda' && launcher !== 'ray') {
    try {
      pools.checkResourceAvailable(buildInfo().cudaDevices);
    } catch (error) {
      throw new UserError(`trainer.n_gpus_per_node=${perNode}: ${(error as Error).message}`);
    }
  }
  return pools.getResourcePool(Role.ActorRolloutRef).worldSize;
}

function launcherOf(config: PpoConfig): GroupOptions['launcher'] {
  const { launcher } = config.trainer;
  if (launcher !== 'ray') return launcher;
  const { address, num_cpus: numCpus, runtime_env: runtimeEnv } = config.ray_init;
  return rayLauncher({ address, numCpus, runtimeEnv });
}

export async function openWorkerGroups(
  config: PpoConfig,
  extensions: RolloutExtensions = {},
  onCall?: GroupOptions['onCall'],
): Promise<WorkerGroups> {
  const device = await deviceOf(config);
  const worldSize = checkResources(config, device);
  const options = {
    launcher: launcherOf(config),
    worldSize,
    device,
    timeoutSeconds: config.trainer.worker_timeout,
    onCall,
  };
  const actor = { workerClass: ActorRolloutRefWorker, config, extensions };
  const groups = usesCritic(config)
    ? await createColocatedWorkers({ actor, critic: { workerClass: CriticWorker, config } }, options)
    : { ...(await createColocatedWorkers({ actor }, options)), critic: null };
  return { ...groups, worldSize, close: () => groups.actor.close() };
}
