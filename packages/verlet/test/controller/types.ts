/** Compiled, never run: what the types of worker groups promise. A line marked as an error must be one. */
import type { WorkerGroup } from '../../src/controller/index.js';
import type { DataProto } from '../../src/protocol/index.js';
import type { ActorGroup, CriticGroup } from '../../src/trainer/ppo.js';
import type { ActorRolloutRefWorker } from '../../src/workers/actor-rollout-ref.js';
import type { CriticWorker } from '../../src/workers/critic-worker.js';
import type { ScriptedWorker } from './scripted-worker.js';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const holds = <_T extends true>(): void => {};

type Group = WorkerGroup<typeof ScriptedWorker>;
holds<Equal<Group['nothing'], () => Promise<undefined>>>();
holds<Equal<Group['add'], (a: readonly number[], b: readonly number[]) => Promise<number[]>>>();
holds<Equal<Group['first'], (text: string) => Promise<string>>>();
holds<Equal<Group['double'], (batch: DataProto, factor?: number) => Promise<DataProto>>>();
holds<Equal<Group['shout'], (sentence: string) => Promise<string>>>();
holds<Equal<Group['fail'], (rank: number) => Promise<string[]>>>();

declare const group: Group;
// @ts-expect-error: a method that is not registered
group.hooked;
// @ts-expect-error: one number where each rank wants its own
group.add(1, 2);
// @ts-expect-error: no batch
group.double(1);

// The trainer's loop takes groups as it takes workers.
holds<WorkerGroup<typeof ActorRolloutRefWorker> extends ActorGroup ? true : false>();
holds<WorkerGroup<typeof CriticWorker> extends CriticGroup ? true : false>();
