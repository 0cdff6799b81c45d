import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  AdamW,
  type AdamWOptions,
  clipGradNorm,
  gradNorm,
  liveTensors,
  lrSchedule,
  scope,
  type Tensor,
  tensor,
} from '../index.js';
import { saveSafetensors } from '../safetensors/index.js';

interface Run {
  dtype: 'float32' | 'bfloat16';
  weightDecay: number;
  betas: [number, number];
  clip: number | null;
  start: Record<string, number[]>;
  steps: {
    lr: number;
    norm?: number;
    grads: Record<string, number[]>;
    parameters: Record<string, number[]>;
    master: Record<string, number[]>;
  }[];
}

// Made by test/fixtures/optim.py with PyTorch and transformers.
const fixture = JSON.parse(readFileSync(new URL('../../test/fixtures/optim.json', import.meta.url), 'utf8')) as {
  shapes: Record<string, number[]>;
  runs: Run[];
  schedules: Record<string, number[]>;
};
const names = Object.keys(fixture.shapes);

function parametersOf(run: Run): Map<string, Tensor> {
  return new Map(
    names.map((name) => [
      name,
      tensor(run.start[name]!, { shape: fixture.shapes[name]!, dtype: run.dtype }).setRequiresGrad().keep(),
    ]),
  );
}

function gradsOf(run: Run, step: number): Map<string, Tensor> {
  const { grads } = run.steps[step]!;
  return new Map(
    Object.entries(grads).map(([name, values]) => [
      name,
      tensor(values, { shape: fixture.shapes[name]!, dtype: run.dtype }),
    ]),
  );
}

function optimizerOf(run: Run, parameters: Map<string, Tensor>, more: AdamWOptions = {}): AdamW {
  return new AdamW(parameters, { betas: run.betas, weightDecay: run.weightDecay, ...more });
}

function largestDifference(actual: Tensor, expected: number[]): number {
  return Math.max(...actual.toArray().map((value, k) => Math.abs(value - expected[k]!)));
}

/** Walks through steps [from, to) of a recorded run, comparing with PyTorch after each. */
function follow(
  run: Run,
  optimizer: AdamW,
  parameters: Map<string, Tensor>,
  from: number,
  to: number,
  explicit: boolean,
): void {
  for (let step = from; step < to; step++) {
    const recorded = run.steps[step]!;
    scope(() => {
      const grads = gradsOf(run, step);
      if (run.clip !== null) {
        const { norm, finite } = clipGradNorm(grads, run.clip);
        expect(finite).toBe(true);
        expect(Math.abs(norm - recorded.norm!) / recorded.norm!).toBeLessThan(1e-6);
      }
      optimizer.lr = recorded.lr;
      if (explicit) optimizer.step(grads);
      else {
        for (const [name, parameter] of parameters) parameter.setGrad(grads.get(name) ?? null);
        optimizer.step();
        optimizer.zeroGrad();
      }
      for (const [name, parameter] of parameters) {
        const master = optimizer.stateDict().tensors.get(`${name}.master`) ?? parameter;
        expect(largestDifference(master, recorded.master[name]!)).toBeLessThan(1e-6);
        if (run.dtype === 'float32')
          expect(largestDifference(parameter, recorded.parameters[name]!)).toBeLessThan(1e-6);
        else expect(parameter.equal(master.to(parameter.dtype))).toBe(true);
      }
    });
  }
}

describe('AdamW', () => {
  for (const run of fixture.runs) {
    for (const explicit of [true, false]) {
      const how = explicit ? 'gradients given by name' : "the parameters' own gradients";
      it(`equals PyTorch over 20 steps: ${run.dtype}, clip ${run.clip}, ${how}`, () => {
        const parameters = parametersOf(run);
        const optimizer = optimizerOf(run, parameters);
        const live = liveTensors().count;
        follow(run, optimizer, parameters, 0, 20, explicit);
        expect(liveTensors().count).toBe(live);
        optimizer.dispose();
        for (const parameter of parameters.values()) parameter.dispose();
        expect(liveTensors().count).toBe(0);
      });
    }

    it(`goes on from a saved state to the same numbers: ${run.dtype}, clip ${run.clip}`, () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'verlet-optim-'));
      try {
        const file = path.join(folder, 'optimizer.safetensors');
        const first = parametersOf(run);
        {
          using optimizer = optimizerOf(run, first);
          follow(run, optimizer, first, 0, 9, true);
          optimizer.save(file);
        }
        const second = parametersOf(run);
        scope(() => {
          for (const [name, parameter] of second) parameter.detach().copy_(first.get(name)!.detach());
        });
        using resumed = optimizerOf(run, second);
        resumed.load(file);
        follow(run, resumed, second, 9, 20, true);
        for (const parameter of [...first.values(), ...second.values()]) parameter.dispose();
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }

  it('takes float32 gradients for bfloat16 parameters, and keeps steps that bfloat16 alone would lose', () => {
    scope(() => {
      const weight = tensor([256], { dtype: 'bfloat16' }).setRequiresGrad();
      using optimizer = new AdamW([['weight', weight]], { lr: 0.1, weightDecay: 0 });
      for (let step = 0; step < 30; step++) optimizer.step(new Map([['weight', tensor([1])]]));
      // 30 steps of 0.1; next to 256 a bfloat16 moves in steps of 1 or 2.
      expect(optimizer.stateDict().tensors.get('weight.master')!.item()).toBeCloseTo(253, 2);
      expect(weight.item()).toBe(253);
    });
  });

  it('leaves out the decay where told to', () => {
    scope(() => {
      const [a, b] = [tensor([1]).setRequiresGrad(), tensor([1]).setRequiresGrad()];
      using optimizer = new AdamW(
        [
          ['a.weight', a],
          ['a.bias', b],
        ],
        { lr: 0.1, weightDecay: 0.5, noDecay: (name) => name.endsWith('.bias') },
      );
      optimizer.step(
        new Map([
          ['a.weight', tensor([0])],
          ['a.bias', tensor([0])],
        ]),
      );
      expect(a.item()).toBeCloseTo(0.95, 6);
      expect(b.item()).toBe(1);
    });
  });

  it('refuses what cannot be right, and a foreign state changes nothing', () => {
    scope(() => {
      const weight = tensor([1, 2]).setRequiresGrad();
      expect(() => new AdamW([['w', weight]], { lr: -1 })).toThrow(/lr must not be negative/);
      expect(() => new AdamW([['w', weight]], { betas: [0.9, 1] })).toThrow(/betas/);
      expect(() => new AdamW([])).toThrow(/no parameters/);
      expect(
        () =>
          new AdamW([
            ['w', weight],
            ['w', weight],
          ]),
      ).toThrow(/two parameters are named 'w'/);
      expect(() => new AdamW([['w', tensor([1], { dtype: 'int64' })]])).toThrow(/int64/);
      using optimizer = new AdamW([['w', weight]]);
      expect(() => optimizer.step(new Map([['v', weight]]))).toThrow(/'v', which is not trained here/);
      expect(() => optimizer.step(new Map([['w', tensor([1, 2, 3])]]))).toThrow(/gradient of 'w' is \[3\]/);
      const { state, tensors } = optimizer.stateDict();
      const before = tensors.get('w.exp_avg')!.clone();
      const foreign = new Map([
        ['w.exp_avg', tensor([5, 5])],
        ['w.exp_avg_sq', tensor([1, 2, 3])],
      ]);
      expect(() => optimizer.loadStateDict({ tensors: foreign, state })).toThrow(/'w.exp_avg_sq' is \[3\]/);
      expect(() => optimizer.loadStateDict({ tensors, state: { ...state, steps: {} } })).toThrow(
        /knows no parameter 'w'/,
      );
      expect(() => optimizer.loadStateDict({ tensors, state: { ...state, steps: { w: 1, z: 1 } } })).toThrow(
        /not trained here: z/,
      );
      expect(tensors.get('w.exp_avg')!.equal(before)).toBe(true);
      const folder = mkdtempSync(path.join(tmpdir(), 'verlet-optim-'));
      saveSafetensors(path.join(folder, 'x.safetensors'), [['w', weight]]);
      expect(() => optimizer.load(path.join(folder, 'x.safetensors'))).toThrow(/not the state of an AdamW/);
      rmSync(folder, { recursive: true });
    });
    // What a failed constructor had kept was freed again.
    expect(liveTensors().count).toBe(0);
  });
});

describe('clipping', () => {
  it('measures 16-bit gradients in float32 and mixes dtypes', () => {
    scope(() => {
      const grads = [tensor(Array(4096).fill(0.1), { dtype: 'bfloat16' }), tensor([3]), null];
      const each = tensor([0.1], { dtype: 'bfloat16' }).item();
      expect(gradNorm(grads).item()).toBeCloseTo(Math.sqrt(4096 * each * each + 9), 3);
      expect(gradNorm([]).item()).toBe(0);
    });
    expect(liveTensors().count).toBe(0);
  });

  it('touches nothing below the limit or when a gradient is not finite', () => {
    scope(() => {
      const grads = [tensor([3, 4])];
      expect(clipGradNorm(grads, 6)).toEqual({ norm: 5, finite: true, clipped: false });
      expect(grads[0]!.toArray()).toEqual([3, 4]);
      expect(clipGradNorm(grads, 1)).toEqual({ norm: 5, finite: true, clipped: true });
      expect(gradNorm(grads).item()).toBeCloseTo(1, 5);
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const broken = [tensor([1, bad]), tensor([7])];
        expect(clipGradNorm(broken, 1).finite).toBe(false);
        expect(broken[1]!.item()).toBe(7);
      }
      // A rank that holds half of the gradients is told the length of the whole.
      const half = [tensor([3])];
      clipGradNorm(half, 1, { norm: 5 });
      expect(half[0]!.item()).toBeCloseTo(0.6, 5);
    });
  });
});

describe('schedules', () => {
  const cases = {
    constant: lrSchedule({ type: 'constant', warmupSteps: 5 }),
    linear: lrSchedule({ type: 'linear', warmupSteps: 5, totalSteps: 30 }),
    cosine: lrSchedule({ type: 'cosine', warmupSteps: -1, warmupRatio: 5 / 30, totalSteps: 30 }),
    cosineThreeHalves: lrSchedule({ type: 'cosine', totalSteps: 40, numCycles: 1.5 }),
  };
  for (const [name, factor] of Object.entries(cases)) {
    it(`${name} equals transformers`, () => {
      // Behind the end transformers lets the cosine rise again; here a run that goes on stays at the lowest rate.
      const steps = name === 'cosine' ? 31 : 40;
      const expected = fixture.schedules[name]!.slice(0, steps);
      expected.forEach((value, step) => {
        expect(factor(step)).toBeCloseTo(value, 10);
      });
    });
  }

  it('ends at the lowest rate and stays there', () => {
    for (const type of ['linear', 'cosine'] as const) {
      const factor = lrSchedule({ type, totalSteps: 100, warmupRatio: 0.1, minLrRatio: 0.1 });
      expect(factor(0)).toBe(0);
      expect(factor(5)).toBeCloseTo(0.5);
      expect(factor(10)).toBe(1);
      expect(factor(55)).toBeCloseTo(0.55);
      expect(factor(100)).toBeCloseTo(0.1);
      expect(factor(250)).toBeCloseTo(0.1);
    }
  });

  it('asks for what it needs', () => {
    expect(() => lrSchedule({ type: 'cosine' })).toThrow(/totalSteps/);
    expect(() => lrSchedule({ type: 'constant', warmupRatio: 0.1 })).toThrow(/totalSteps/);
    expect(() => lrSchedule({ type: 'cosine', totalSteps: 10, minLrRatio: 2 })).toThrow(/minLrRatio/);
    expect(() => lrSchedule({ type: 'wsd' as 'cosine', totalSteps: 10 })).toThrow(/unknown schedule 'wsd'/);
  });
});
