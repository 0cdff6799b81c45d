import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  AdamW,
  aten,
  CudaEvent,
  CudaGraph,
  CudaStream,
  clipGradNorm,
  cudaMemory,
  deviceProperties,
  emptyCudaCache,
  emptyPinned,
  full,
  generatorState,
  grad,
  isCudaAvailable,
  keyedUniform,
  liveTensors,
  manualSeed,
  newGraphPool,
  noGrad,
  nvtxRange,
  ones,
  openSafetensors,
  randn,
  resetPeakMemory,
  saveSafetensors,
  scope,
  setGeneratorState,
  synchronize,
  synchronizeSync,
  type Tensor,
  TorchError,
  tensor,
  zeros,
} from '../../src/index.js';

const available = isCudaAvailable();
const reason = available ? '' : ' (skipped: this machine or this build has no CUDA)';
const device = 'cuda:0';

afterEach(() => expect(liveTensors().count).toBe(0));

describe.skipIf(available)(`without CUDA${available ? ' (skipped: CUDA is here)' : ''}`, () => {
  it('everything says what to do', () => {
    for (const use of [
      () => cudaMemory(),
      () => CudaGraph.capture(() => undefined),
      () => new CudaEvent(),
      () => CudaStream.create(),
      () => synchronizeSync(),
      () => deviceProperties(),
      () => emptyPinned([1]),
      () => nvtxRange('x', () => 1),
    ]) {
      expect(use).toThrow(TorchError);
      expect(use).toThrow(/npm rebuild @verlet\/torch/);
    }
  });
});

describe.skipIf(!available)(`CUDA${reason}`, () => {
  it('computes what the CPU computes', () => {
    scope(() => {
      manualSeed(1);
      const [a, b] = [randn([64, 64], { dtype: 'float64' }), randn([64, 64], { dtype: 'float64' })];
      const there = a.to(device).matmul(b.to(device));
      expect(there.device).toBe(device);
      expect(there.cpu().allclose(a.matmul(b))).toBe(true);
      const x = randn([5], { device }).setRequiresGrad();
      expect(grad([x.square().sum()], [x])[0]!.cpu().allclose(x.detach().mul(2).cpu())).toBe(true);
      expect(String(tensor([1], { device }))).toContain('cuda:0');
      for (const dtype of ['float32', 'bfloat16', 'float16', 'int64', 'int32', 'uint8', 'bool'] as const)
        expect(tensor([1, 0], { dtype, device }).toArray()).toEqual([1, 0]);
    });
  });

  it('knows the device and its memory', () => {
    const properties = deviceProperties(device);
    expect(properties.name.length).toBeGreaterThan(3);
    expect(properties.multiprocessors).toBeGreaterThan(0);
    synchronizeSync();
    const before = cudaMemory(device);
    resetPeakMemory(device);
    scope(() => {
      zeros([1024, 1024], { device });
      expect(cudaMemory(device).allocated - before.allocated).toBe(4 * 2 ** 20);
    });
    const after = cudaMemory(device);
    expect(after.allocated).toBe(before.allocated);
    expect(after.peakAllocated).toBeGreaterThanOrEqual(before.allocated + 4 * 2 ** 20);
    expect(after.total).toBeGreaterThan(after.free);
    emptyCudaCache();
    expect(cudaMemory(device).reserved).toBeLessThanOrEqual(after.reserved);
  });

  it('running out of memory is an error of its own, and work goes on', () => {
    scope(() => {
      let thrown: unknown;
      try {
        zeros([2 ** 45], { device });
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toBeInstanceOf(TorchError);
      expect((thrown as TorchError).kind).toBe('out-of-memory');
      expect(ones([3], { device }).sum().item()).toBe(3);
    });
  });

  it('replays a captured graph on new inputs, random numbers included', () => {
    scope(() =>
      noGrad(() => {
        const input = zeros([256], { device });
        const output = zeros([256], { device });
        const noise = zeros([256], { device });
        const step = () =>
          scope(() => {
            output.copy_(input.mul(2).add(1));
            noise.copy_(randn([256], { device }));
          });
        step();
        using graph = CudaGraph.capture(step);
        input.fill_(5);
        graph.replay();
        expect(output.sum().item()).toBe(256 * 11);
        const first = noise.clone();
        graph.replay();
        expect(noise.equal(first)).toBe(false);
        const live = liveTensors().count;
        for (let k = 0; k < 100; k++) graph.replay();
        expect(liveTensors().count).toBe(live);
      }),
    );
  });

  it('graphs share a pool, and a failed capture leaves the stream usable', () => {
    scope(() =>
      noGrad(() => {
        const pool = newGraphPool();
        const value = zeros([1024], { device });
        const bump = () => scope(() => value.add_(ones([1024], { device })));
        bump();
        const graphs = [1, 2, 3].map(() => CudaGraph.capture(() => void bump(), { device, pool }));
        expect(graphs[1]!.pool).toEqual(pool);
        value.zero_();
        for (const graph of graphs) graph.replay();
        expect(value.sum().item()).toBe(3 * 1024);
        for (const graph of graphs) graph.dispose();
        expect(() => graphs[0]!.replay()).toThrow(/disposed/);
        const stream = CudaStream.current(device);
        expect(() =>
          CudaGraph.capture(() => {
            throw new Error('in the middle');
          }),
        ).toThrow('in the middle');
        expect(CudaStream.current(device).id).toBe(stream.id);
        expect(value.add(1).sum().item()).toBe(4 * 1024);
      }),
    );
  });

  it('orders streams with events and times with them', async () => {
    const a = randn([2048, 2048], { device });
    const start = new CudaEvent({ device }).record();
    const products = scope(() => Array.from({ length: 10 }, () => a.matmul(a)));
    const end = new CudaEvent({ device }).record();
    await end.synchronize();
    expect(end.isDone).toBe(true);
    expect(start.elapsed(end)).toBeGreaterThan(0);
    for (const product of products) product.dispose();
    const side = CudaStream.create({ device, highPriority: true });
    side.waitFor(CudaStream.current(device));
    const there = side.run(() => {
      expect(CudaStream.current(device).id).toBe(side.id);
      side.protect(a);
      return a.add(1);
    });
    CudaStream.current(device).waitFor(side);
    await side.synchronize();
    expect(side.isIdle).toBe(true);
    expect(CudaStream.current(device).id).not.toBe(side.id);
    const same = scope(() => there.sub(1).allclose(a, { atol: 1e-6 }));
    expect(same).toBe(true);
    expect(() => new CudaEvent({ device }).isDone).toThrow(/never recorded/);
    for (const event of [start, end]) event.dispose();
    for (const value of [a, there]) value.dispose();
    await synchronize(device);
  });

  it('copies through pinned memory', () => {
    scope(() => {
      const pinned = emptyPinned([1000]);
      expect(pinned.isPinned).toBe(true);
      pinned.fill_(3);
      const there = pinned.to({ device, nonBlocking: true });
      const back = emptyPinned([1000]).copy_(there.mul(2), true);
      synchronizeSync(device);
      expect(back.sum().item()).toBe(6000);
      expect(tensor([1, 2]).pinMemory().isPinned).toBe(true);
    });
  });

  it('keeps the state of its own generator', () => {
    scope(() => {
      manualSeed(3);
      const state = generatorState(device);
      const first = randn([5], { device });
      setGeneratorState(state, device);
      expect(randn([5], { device }).equal(first)).toBe(true);
    });
  });

  it('draws the same keyed noise as the CPU, where the kernels are built', (context) => {
    scope(() => {
      const key = [
        full([100], 7, { dtype: 'int64' }),
        full([100], 2, { dtype: 'int64' }),
        tensor(
          Array.from({ length: 100 }, (_, k) => k),
          { dtype: 'int64' },
        ),
      ] as const;
      const here = keyedUniform(...key, 5);
      let there: ReturnType<typeof keyedUniform>;
      try {
        there = keyedUniform(key[0].to(device), key[1].to(device), key[2].to(device), 5);
      } catch (error) {
        context.skip(`no CUDA kernel for keyed noise in this build: ${(error as Error).message.split('\n')[0]}`);
      }
      expect(there!.cpu().equal(here)).toBe(true);
    });
  });

  it('trains bfloat16 parameters to the same numbers as the CPU', () => {
    scope(() => {
      manualSeed(4);
      const start = randn([300]).to('bfloat16');
      const grads = Array.from({ length: 10 }, () => randn([300]));
      const ends = ['cpu', device].map((where) => {
        const weight = start.to({ device: where, copy: true }).setRequiresGrad();
        using optimizer = new AdamW([['w', weight]], { lr: 0.01 });
        for (const g of grads) {
          const mine = g.to({ device: where, copy: true });
          clipGradNorm([mine], 1);
          optimizer.step(new Map([['w', mine]]));
        }
        optimizer.moveState('cpu');
        optimizer.moveState(where);
        return optimizer.stateDict().tensors.get('w.master')!.cpu().clone();
      });
      expect(ends[0]!.allclose(ends[1]!, { atol: 1e-6 })).toBe(true);
    });
  });

  describe('attention of answers that share prompts', () => {
    const [heads, kvHeads, dim] = [14, 2, 64];
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    const starts = (lengths: readonly number[]) => {
      const all = Int32Array.from([0, ...lengths]);
      for (let k = 1; k < all.length; k++) all[k]! += all[k - 1]!;
      return tensor(all, { device });
    };

    /** Output and gradients of q, k and v. */
    type Result = Tensor[];
    function withGradients(
      parts: Tensor[],
      outer: Tensor,
      attend: (q: Tensor, k: Tensor, v: Tensor) => Tensor,
    ): Result {
      const inputs = parts.map((part) => part.detach().setRequiresGrad());
      const output = attend(inputs[0]!, inputs[1]!, inputs[2]!);
      return [
        output.detach(),
        ...(grad([output], inputs, [outer.to({ dtype: output.dtype, device: output.device })]) as Tensor[]),
      ];
    }

    const flash = (q: Tensor, k: Tensor, v: Tensor, lengths: readonly number[]): Tensor => {
      const [at, longest] = [starts(lengths), Math.max(...lengths)];
      return aten._flash_attention_forward(q, k, v, at, at, longest, longest, 0, true, false, dim ** -0.5)[0];
    };

    it.each([
      {
        prompts: [1, 130, 33],
        answers: [
          [5, 70],
          [200, 1, 64],
          [1, 1],
        ],
        others: [90, 3],
      },
      { prompts: [7], answers: [[1, 1]], others: [] },
      { prompts: [1], answers: [[1]], others: [] },
      {
        prompts: [300, 2],
        answers: [
          [40, 500, 129],
          [128, 1],
        ],
        others: [],
      },
    ])('gives what whole sequences give, both ways: %j', ({ prompts, answers, others }) => {
      scope(() => {
        manualSeed(6);
        const lengths = [...prompts, ...answers.flat(), ...others];
        const prefixes = [
          ...prompts.map(() => -1),
          ...answers.flatMap((own, k) => own.map(() => k)),
          ...others.map(() => -1),
        ];
        const tokens = sum(lengths);
        const parts = [heads, kvHeads, kvHeads].map((count) => randn([tokens, count, dim]).to('bfloat16'));
        const outer = randn([tokens, heads, dim]).to('bfloat16');
        const there = parts.map((part) => part.to(device));

        const together = answers.map(sum);
        const shared = withGradients(there, outer, (q, k, v) =>
          aten.verlet_shared_prefix_attention(
            q,
            k,
            v,
            starts(lengths),
            starts(together),
            starts(prompts),
            [Math.max(...lengths), Math.max(...together), Math.max(...prompts)],
            sum(prompts),
            sum(together),
            dim ** -0.5,
          ),
        );

        // Whole sequences: every answer behind a prompt of its own; what they give to copies of a token adds up.
        const begins = lengths.map((_, k) => sum(lengths.slice(0, k)));
        const range = (k: number): number[] => Array.from({ length: lengths[k]! }, (_, at) => begins[k]! + at);
        const whole = lengths.flatMap((_, k) =>
          prefixes[k]! < 0 ? [range(k)] : [[...range(prefixes[k]!), ...range(k)]],
        );
        const copies = tensor(Int32Array.from(whole.flat()), { dtype: 'int64', device });
        const wholeStarts = whole.map((_, k) => sum(whole.slice(0, k).map((own) => own.length)));
        const owned = tensor(
          Int32Array.from(
            whole.flatMap((own, k) =>
              Array.from({ length: lengths[k]! }, (_, at) => wholeStarts[k]! + own.length - lengths[k]! + at),
            ),
          ),
          { dtype: 'int64', device },
        );
        const unshared = withGradients(there, outer, (q, k, v) =>
          flash(
            q.indexSelect(0, copies),
            k.indexSelect(0, copies),
            v.indexSelect(0, copies),
            whole.map((own) => own.length),
          ).indexSelect(0, owned),
        );

        const exact = withGradients(
          parts.map((part) => part.to('float32')),
          outer,
          (q, k, v) => aten.verlet_packed_attention(q, k, v, lengths, dim ** -0.5, 0, prefixes)[0],
        );
        const error = (got: Tensor, wanted: Tensor): number =>
          got.cpu().to('float32').sub(wanted).norm().item() / wanted.norm().item();
        for (const [k, wanted] of exact.entries()) {
          expect(error(shared[k]!, wanted)).toBeLessThan(2e-2);
          expect(error(shared[k]!, wanted)).toBeLessThan(2 * error(unshared[k]!, wanted) + 4e-3);
        }
      });
    });

    it('without gradients too, and says what does not fit', () => {
      scope(() => {
        manualSeed(7);
        const [q, k, v] = [heads, kvHeads, kvHeads].map((count) =>
          randn([12, count, dim]).to({ dtype: 'bfloat16', device }),
        );
        const by = (prompts: number, answers: number) =>
          aten.verlet_shared_prefix_attention(
            q!,
            k!,
            v!,
            starts([4, 5, 3]),
            starts([8]),
            starts([4]),
            [5, 8, 4],
            prompts,
            answers,
            0.125,
          );
        const exact = aten.verlet_packed_attention(
          q!.cpu().to('float32'),
          k!.cpu().to('float32'),
          v!.cpu().to('float32'),
          [4, 5, 3],
          0.125,
          0,
          [-1, 0, 0],
        )[0];
        expect(
          noGrad(() => by(4, 8))
            .cpu()
            .to('float32')
            .sub(exact)
            .abs()
            .max()
            .item(),
        ).toBeLessThan(0.03);
        expect(() => by(5, 8)).toThrow(/5 tokens of prompts and 8 of answers do not fit 12/);
      });
    });
  });

  it('saves tensors from the device', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'verlet-cuda-'));
    scope(() => {
      const value = randn([1000, 70], { device }).t();
      saveSafetensors(path.join(folder, 'a.safetensors'), [['x', value]]);
      expect(openSafetensors(folder).tensor('x').equal(value.cpu())).toBe(true);
    });
    rmSync(folder, { recursive: true });
  });
});

if (!available) console.log(`CUDA tests${reason}`);
