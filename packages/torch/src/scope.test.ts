import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { liveTensors, ones, scope, type Tensor, TorchError, tensor, zeros } from './index.js';

afterEach(() => expect(liveTensors().count).toBe(0));

describe('scope', () => {
  it('frees what was made inside and not returned', () => {
    const kept = scope(() => {
      const a = ones([10]);
      const b = a.add(1).mul(2);
      expect(liveTensors().count).toBe(3);
      return b;
    });
    expect(liveTensors().count).toBe(1);
    const sum = kept.sum();
    expect(sum.item()).toBe(40);
    // Made outside of any scope: it lives until it is disposed.
    expect(liveTensors().count).toBe(2);
    for (const value of [kept, sum]) value.dispose();
  });

  it('lets tensors out in arrays, maps and plain objects, and moves them to the scope around', () => {
    scope(() => {
      const inner = scope(() => {
        const made = [1, 2, 3, 4].map((k) => tensor([k]));
        return { list: [made[0]!], map: new Map([['b', made[1]!]]), deep: { x: { y: made[2]! } } };
      });
      expect(liveTensors().count).toBe(3);
      expect([inner.list[0]!, inner.map.get('b')!, inner.deep.x.y].map((t) => t.item())).toEqual([1, 2, 3]);
    });
    expect(liveTensors().count).toBe(0);
  });

  it('frees everything when the body throws', () => {
    expect(() =>
      scope(() => {
        ones([3]);
        scope(() => {
          ones([4]);
          throw new Error('boom');
        });
      }),
    ).toThrow('boom');
    expect(liveTensors().count).toBe(0);
    // The next tensor belongs to no scope of the ones that failed.
    const after = ones([1]);
    expect(after.owner).toBeNull();
    after.dispose();
  });

  it('refuses asynchronous bodies', () => {
    expect(() => scope(async () => ones([1]))).toThrow(/synchronous/);
  });

  it('keeps what is told to stay', () => {
    let survivor: Tensor | undefined;
    scope(() =>
      scope(() => {
        survivor = ones([2]).keep();
      }),
    );
    expect(survivor!.toArray()).toEqual([1, 1]);
    survivor!.dispose();
  });
});

describe('heldBy', () => {
  it('outlives scopes until dispose, from whatever owned it before', () => {
    const before = liveTensors().count;
    const holder = {};
    const tensors: Tensor[] = [];
    const [made, kept] = scope(() => {
      scope(() => {
        tensors.push(ones([2]).heldBy(holder));
      });
      return [ones([2]).heldBy(holder), ones([2]).keep().heldBy(holder).heldBy(tensors)];
    });
    expect(liveTensors().count).toBe(before + 3);
    expect(made!.keep().toArray()).toEqual([1, 1]);
    made!.dispose();
    made!.dispose();
    kept!.dispose();
    expect(() => kept!.heldBy(holder)).toThrow(/disposed/);
    expect(tensors[0]!.toArray()).toEqual([1, 1]);
    tensors[0]!.dispose();
    expect(liveTensors().count).toBe(before);
  });

  it('ends with the holder', () => {
    const printed = child(`
      const hold = () => { const holder = { tensors: [] }; for (let k = 0; k < 5; k++) holder.tensors.push(torch.ones([4]).heldBy(holder)); };
      hold();
      for (let k = 0; k < 50 && torch.liveTensors().count > 0; k++) { globalThis.gc(); await wait(); }
      console.log(torch.liveTensors().count);`);
    expect(printed.trim()).toBe('0');
  });
});

describe('dispose', () => {
  it('frees once, early, and makes later use an error that says why', () => {
    scope(() => {
      const a = ones([3]);
      a.dispose();
      a.dispose();
      expect(a.isDisposed).toBe(true);
      for (const use of [
        () => a.add(1),
        () => a.shape,
        () => a.item(),
        () => a.keep(),
        () => a.dtype,
        () => ones([3]).add(a),
      ]) {
        expect(use).toThrow(TorchError);
        expect(use).toThrow(/dispose/);
      }
      // The slot is used again; the old handle must not reach the new tensor.
      const b = zeros([5]);
      expect(() => a.numel).toThrow(/dispose/);
      expect(b.numel).toBe(5);
    });
  });

  it('happens at the end of a block with using', () => {
    {
      using a = ones([3]);
      expect(a.numel).toBe(3);
      expect(liveTensors().count).toBe(1);
    }
    expect(liveTensors().count).toBe(0);
  });

  it('counts bytes once per storage', () => {
    scope(() => {
      const a = zeros([1000]);
      a.view(10, 100).select(0, 1);
      expect(liveTensors()).toEqual({ count: 3, bytes: 4000 });
      zeros([1000], { dtype: 'bfloat16' });
      expect(liveTensors().bytes).toBe(6000);
    });
  });
});

/** Runs a module in a child with the garbage collector in reach, and gives what it printed. */
function child(code: string): string {
  const index = fileURLToPath(new URL('../dist/index.js', import.meta.url));
  const program = `import * as torch from ${JSON.stringify(index)};\nconst wait = () => new Promise((r) => setTimeout(r, 10));\n${code}`;
  const outcome = spawnSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', program], {
    encoding: 'utf8',
    timeout: 90_000,
  });
  if (outcome.status !== 0) throw new Error(outcome.stderr);
  return outcome.stdout.trim();
}

describe('the net under it', () => {
  it('frees tensors that were forgotten, and no slot twice', () => {
    const printed = child(`
      const kept = torch.ones([7]);
      (() => { for (let k = 0; k < 1000; k++) { const t = torch.zeros([10]); if (k % 2) t.dispose(); } })();
      const before = torch.liveTensors().count;
      for (let k = 0; k < 20 && torch.liveTensors().count > 1; k++) { gc(); await wait(); }
      const fresh = torch.scope(() => Array.from({ length: 600 }, (_, k) => torch.full([1], k)).map((t) => t.item()));
      gc(); await wait();
      console.log(JSON.stringify([before, torch.liveTensors().count, kept.sum().item(), fresh.every((v, k) => v === k)]));
    `);
    expect(JSON.parse(printed)).toEqual([501, 1, 7, true]);
  });

  it('makes the collector run when only forgotten tensors pile up', () => {
    const printed = child(`
      let most = 0;
      for (let k = 0; k < 60_000; k++) {
        torch.zeros([16]);
        if (k % 1000 === 0) { most = Math.max(most, torch.liveTensors().count); await new Promise(setImmediate); }
      }
      console.log(most);
    `);
    expect(Number(printed)).toBeLessThan(50_000);
  });
});
