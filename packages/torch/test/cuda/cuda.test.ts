import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  AdamW,
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
  TorchError,
  tensor,
  zeros,
} from '../../src/index.js';

const available = isCudaAvailable();
const reason = available ? '' : ' (skipped: this machine or this build has no CUDA)';
const device = 'cuda:0';

afterEach(() => expect(liveTensors().count).toBe(0));

describe.skipIf(available)('without CUDA', () => {
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
