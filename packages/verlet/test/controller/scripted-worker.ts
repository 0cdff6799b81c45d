/** A worker that does on command what workers can do: compute, reduce, throw, hang, die. */
import { spawn } from 'node:child_process';
import { scope, tensor } from '@verlet/torch';
import { type DispatchMode, register } from '../../src/controller/index.js';
import { DataProto } from '../../src/protocol/index.js';
import type { WorkerContext } from '../../src/workers/context.js';

export interface ScriptedConfig {
  name: string;
  failToStart?: boolean;
}

/** Gives rank k the k-th word of a sentence; joins what comes back. */
export const words: DispatchMode<[sentence: string], string> = {
  dispatch: ([sentence], worldSize) => ({
    perRank: Array.from({ length: worldSize }, (_, rank) => [sentence.split(' ')[rank] ?? '']),
  }),
  collect: (results) => results.join(' '),
};

export class ScriptedWorker {
  static readonly source = { module: import.meta.url, export: 'ScriptedWorker' };
  static readonly methods = register({
    describe: { dispatch: 'one_to_all' },
    nothing: { dispatch: 'one_to_all' },
    add: { dispatch: 'all_to_all' },
    first: { dispatch: 'rank_zero' },
    double: { dispatch: 'dp', columns: ['uid'] },
    echo: { dispatch: 'dp_rows' },
    learn: { dispatch: 'dp_update' },
    shout: { dispatch: words },
    total: { dispatch: 'one_to_all' },
    fail: { dispatch: 'one_to_all' },
    hang: { dispatch: 'one_to_all', timeoutSeconds: 1.5 },
    hangInCollective: { dispatch: 'one_to_all', timeoutSeconds: 2.5 },
    die: { dispatch: 'one_to_all' },
    dieLater: { dispatch: 'one_to_all' },
    wrongResult: { dispatch: 'dp' },
  });

  private calls = 0;

  constructor(
    private readonly config: ScriptedConfig,
    private readonly context: WorkerContext,
    private readonly extensions: { hook?: () => string } = {},
  ) {
    if (config.failToStart) throw new RangeError('this worker does not want to start');
  }

  describe(): {
    name: string;
    rank: number;
    worldSize: number;
    calls: number;
    pid: number;
    env: (string | undefined)[];
  } {
    const { RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR } = process.env;
    return {
      name: this.config.name,
      rank: this.context.rank,
      worldSize: this.context.worldSize,
      calls: ++this.calls,
      pid: process.pid,
      env: [RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR],
    };
  }

  async nothing(): Promise<void> {}

  hooked(): string {
    return this.extensions.hook?.() ?? 'no hook';
  }

  add(a: number, b: number): number {
    return a + b + 100 * this.context.rank;
  }

  first(text: string): string {
    return `${text} from ${this.context.rank}`;
  }

  async double(batch: DataProto, factor = 2): Promise<DataProto> {
    return DataProto.fromDict({
      tensors: { doubled: batch.tensor('x').mul(factor) },
      nonTensors: { by: batch.column<string>('uid').map((uid) => `${uid}@${this.context.rank}`) },
      metaInfo: { metrics: { rows: batch.length, columns: [...batch.nonTensorBatch.keys()].join() } },
    });
  }

  /** As many rows as it likes: those of even rows twice, of odd rows none. */
  async echo(batch: DataProto): Promise<DataProto> {
    const uids = batch.column<string>('uid').filter((uid) => Number(uid.slice(1)) % 2 === 0);
    return DataProto.fromDict({ nonTensors: { uid: uids.flatMap((uid) => [uid, uid]) } });
  }

  async learn(batch: DataProto): Promise<DataProto> {
    return DataProto.fromDict({
      metaInfo: {
        metrics: {
          uids: batch.column<string>('uid').join(),
          learnt: batch.tensor('response_mask').toArray(),
        },
      },
    });
  }

  shout(word: string): string {
    return word.toUpperCase();
  }

  /** Through collectives: a number, and tensors of several sizes and types. */
  total(): { sum: number; tensors: number[][] } {
    const { rank } = this.context;
    const tensors = scope(() => {
      const transposed = tensor([
        [1, 2],
        [3, 4],
      ]).t();
      const values = [tensor([rank, 1]), tensor([[rank], [2]], { dtype: 'float64' }), tensor([10 * rank]), transposed];
      this.context.allReduce(values);
      return values.map((value) => value.toArray());
    });
    return { sum: this.context.sum(rank + 1), tensors };
  }

  fail(rank: number): string {
    if (this.context.rank === rank) throw new RangeError(`row 7 of rank ${rank} is empty`);
    return 'fine';
  }

  async hang(rank: number): Promise<string> {
    if (this.context.rank === rank) await new Promise(() => {});
    return 'fine';
  }

  /** One rank stands still with its thread blocked; the others wait for it in a collective. */
  hangInCollective(rank: number): number {
    if (this.context.rank === rank) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    return this.context.sum(1);
  }

  /** One rank is gone in the middle of a collective. */
  die(rank: number): number {
    if (this.context.rank === rank) {
      console.error('last words');
      process.kill(process.pid, 'SIGKILL');
    }
    return this.context.sum(1);
  }

  dieLater(rank: number): void {
    if (this.context.rank === rank) setTimeout(() => process.exit(3), 50);
  }

  async wrongResult(_batch: DataProto): Promise<DataProto> {
    return 5 as unknown as DataProto;
  }

  /** A process of this rank's own, as sandboxes and tools have. */
  spawnSleeper(): number {
    return spawn('sleep', ['1000'], { stdio: 'ignore' }).pid!;
  }

  async close(): Promise<void> {}
}
