import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { NaiveRewardManager, PrimeRewardManager } from '../managers/index.js';
import { createRewardInput, type RewardInput } from '../types.js';
import { type CustomRewardFunction, loadRewardFunction, type PythonScorerOptions, type Scorer } from './index.js';
import { pythonRunner } from './python-runner.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-reward-'));
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const sample = (solution_str: string, extra: Partial<RewardInput> = {}): RewardInput =>
  createRewardInput({
    data_source: 'mine',
    solution_str,
    ground_truth: '5',
    response_ids: [1, 2, 3],
    extra_info: { index: 7 },
    ...extra,
  });

async function using<T>(
  config: CustomRewardFunction,
  run: (scorer: Scorer) => Promise<T>,
  options?: PythonScorerOptions,
): Promise<T> {
  const scorer = await loadRewardFunction(config, options);
  try {
    return await run(scorer);
  } finally {
    await scorer.close();
  }
}

describe('TypeScript and JavaScript', () => {
  test('a .ts file with types, an import of a neighbour, and reward_kwargs', async () => {
    write('neighbour.ts', 'export const double = (x: number): number => 2 * x;\n');
    const path = write(
      'typed.ts',
      `import { double } from './neighbour.js';
       interface Input { solution_str: string; extra_info: { index: number }; response_ids: ArrayLike<number> }
       enum Bonus { Small = 1 }
       export async function compute_score(input: Input, kwargs: { bonus?: number }) {
         return { score: double(input.solution_str.length) + (kwargs.bonus ?? Bonus.Small), index: input.extra_info.index, tokens: input.response_ids.length };
       }`,
    );
    const result = await using({ path, reward_kwargs: { bonus: 10 } }, (scorer) => scorer.scoreOne(sample('abc')));
    expect(result).toEqual({ score: 16, index: 7, tokens: 3 });
  });

  test('.mjs, .cjs and the file:function form; EasyR1 names on the input', async () => {
    const module = write(
      'plain.mjs',
      'export const judge = ({ response, response_length }) => ({ overall: response.length, response_length });',
    );
    expect(await using({ path: `${module}:judge` }, (scorer) => scorer.scoreOne(sample('abcd')))).toEqual({
      overall: 4,
      response_length: 3,
    });
    const common = write('common.cjs', 'exports.compute_score = () => 3;');
    expect(await using({ path: common }, (scorer) => scorer.scoreOne(sample('')))).toBe(3);
  });

  test('a batch function is called once; a wrong number of results is an error', async () => {
    const path = write(
      'batch.mjs',
      "export const REWARD_TYPE = 'batch'; let calls = 0; export const compute_score = (inputs) => (calls++, inputs.map(() => calls)); export const short = () => [1];",
    );
    expect(await using({ path }, (scorer) => scorer.scoreMany([sample('a'), sample('b')]))).toEqual([1, 1]);
    await expect(
      using({ path, name: 'short' }, (scorer) => scorer.scoreMany([sample('a'), sample('b')])),
    ).rejects.toThrow(/2 samples, 1 results/);
  });

  test('what is wrong with a file is said', async () => {
    await expect(loadRewardFunction({ path: join(folder, 'none.ts') })).rejects.toThrow(/there is no file .*none.ts/);
    await expect(loadRewardFunction({ path: write('other.mjs', 'export const score = () => 1;') })).rejects.toThrow(
      /exports no function compute_score; it exports score/,
    );
    await expect(loadRewardFunction({ path: write('broken.ts', 'export const x: = 1;') })).rejects.toThrow(
      /broken.ts cannot be loaded/,
    );
    await expect(loadRewardFunction({ path: write('notes.txt', '') })).rejects.toThrow(/must end in/);
  });
});

test('prime: an endless loop costs its own sample only', async () => {
  const path = write(
    'loop.mjs',
    "export function compute_score({ solution_str }) { while (solution_str === 'loop') {} return solution_str.length; }",
  );
  const manager = new PrimeRewardManager(await loadRewardFunction({ path }), {
    workers: 2,
    timeout_s: 4,
    warn: () => {},
  });
  try {
    const results = await manager.score(['a', 'loop', 'bb', 'ccc'].map((text) => sample(text)));
    expect(results.map((result) => result.score)).toEqual([1, 0, 2, 3]);
    expect(results[1]!.error).toMatch(/longer than 4 s; its thread was ended/);
    expect((await manager.score([sample('again')]))[0]!.score).toBe(5);
  } finally {
    await manager.close();
  }
});

const python = process.env.VERLET_PYTHON ?? 'python3';
let pythonProblem = '';
try {
  execFileSync(python, ['--version'], { timeout: 20_000, stdio: 'pipe' });
} catch {
  pythonProblem = `no Python interpreter (${python})`;
}
if (pythonProblem) console.warn(`Python reward tests are skipped: ${pythonProblem}`);

describe.skipIf(pythonProblem)('Python', () => {
  test("verl's compute_score runs unchanged, may print, gets reward_kwargs and named fields only", async () => {
    const path = write(
      'verl.py',
      `def compute_score(data_source, solution_str, ground_truth, extra_info=None, response_ids=None, bonus=0):
    print("hello from the reward")
    return {"score": len(solution_str) + bonus, "source": data_source, "index": extra_info["index"], "tokens": sum(response_ids)}
`,
    );
    const input = createRewardInput(
      {
        data_source: 'mine',
        solution_str: 'abc',
        ground_truth: '5',
        extra_info: { index: 7 },
        response_ids: Int32Array.of(1, 2),
      },
      {
        entropy: () => {
          throw new Error('nobody asked for the entropy');
        },
      },
    );
    const result = await using({ path, reward_kwargs: { bonus: 0.5 } }, (scorer) => scorer.scoreOne(input));
    expect(result).toEqual({ score: 3.5, source: 'mine', index: 7, tokens: 3 });
  });

  test("verl's batch form, EasyR1's two forms, async functions", async () => {
    const batch = write(
      'verl_batch.py',
      'def compute_score(data_sources, solution_strs, ground_truths, extra_infos, **kwargs):\n    return [len(s) for s in solution_strs]\n',
    );
    expect(await using({ path: batch }, (scorer) => scorer.scoreMany([sample('a'), sample('bb')]))).toEqual([1, 2]);
    const easy = write(
      'easy.py',
      'REWARD_NAME = "x"\nREWARD_TYPE = "batch"\ndef compute_score(reward_inputs, weight=1.0):\n    return [{"overall": weight * r["response_length"], "format": 1.0} for r in reward_inputs]\n',
    );
    expect(
      await using({ path: easy, reward_kwargs: { weight: 2 } }, (scorer) => scorer.scoreMany([sample('a')])),
    ).toEqual([{ overall: 6, format: 1 }]);
    const one = write(
      'easy_one.py',
      'REWARD_TYPE = "sequential"\nasync def main(reward_input):\n    return {"overall": 1.0 if reward_input["response"] == reward_input["ground_truth"] else 0.0}\n',
    );
    expect(await using({ path: one, name: 'main' }, (scorer) => scorer.scoreOne(sample('5')))).toEqual({ overall: 1 });
  });

  test('exceptions, crashes and endless loops are errors of their sample; the process comes back', async () => {
    const path = write(
      'faulty.py',
      `import os, subprocess, time
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if solution_str == "raise": raise ValueError("no such thing")
    if solution_str == "crash": os._exit(7)
    if solution_str == "nan": return float("nan")
    if solution_str == "loop":
        child = subprocess.Popen(["sleep", "60"])
        open(os.environ["VERLET_TEST_PID_FILE"], "w").write(f"{os.getpid()} {child.pid}")
        while True: time.sleep(0.01)
    return len(solution_str)
`,
    );
    process.env.VERLET_TEST_PID_FILE = join(folder, 'pids');
    const scorer = await loadRewardFunction({ path }, { timeout_s: 5 });
    const manager = new NaiveRewardManager(scorer, { warn: () => {}, concurrency: 1 });
    try {
      const results = await manager.score(
        ['a', 'raise', 'bb', 'crash', 'nan', 'loop', 'ccc'].map((text) => sample(text)),
      );
      expect(results.map((result) => result.score)).toEqual([1, 0, 2, 0, 0, 0, 3]);
      const errors = results.map((result) => result.error ?? '');
      expect(errors[1]).toMatch(/raised ValueError: no such thing/);
      expect(errors[3]).toMatch(/ended \(exit code 7\)/);
      expect(errors[4]).toMatch(/finite number/);
      expect(errors[5]).toMatch(/longer than 5 s; its process was killed/);
      const pids = readFileSync(join(folder, 'pids'), 'utf8').split(' ').map(Number);
      for (const pid of pids) {
        await expect.poll(() => isRunning(pid), { timeout: 20_000 }).toBe(false);
      }
    } finally {
      await manager.close();
    }
  });

  if (process.platform !== 'linux') console.warn('the death of orphans is tested on Linux only');
  test.skipIf(process.platform !== 'linux')(
    'the process dies with its parent, even inside an endless loop',
    async () => {
      const path = write(
        'endless.py',
        'import os\nopen(os.environ["VERLET_TEST_PID_FILE"], "w").write(str(os.getpid()))\nwhile True: pass\n',
      );
      const pidFile = join(folder, 'endless-pid');
      const runner = write('runner.py', pythonRunner);
      const code = `require('node:child_process').spawn(${JSON.stringify(python)}, [${JSON.stringify(runner)}, ${JSON.stringify(path)}, 'f'], { detached: true, stdio: ['pipe', 'inherit', 'inherit'] }); setInterval(() => {}, 1000);`;
      const parent = spawn(process.execPath, ['-e', code], {
        env: { ...process.env, VERLET_TEST_PID_FILE: pidFile },
        stdio: 'ignore',
      });
      await expect.poll(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8'), { timeout: 60_000 }).toMatch(/\d+/);
      const pid = Number(readFileSync(pidFile, 'utf8'));
      expect(isRunning(pid)).toBe(true);
      parent.kill('SIGKILL');
      await expect.poll(() => isRunning(pid), { timeout: 30_000 }).toBe(false);
    },
  );

  test('a file that cannot be loaded says why', async () => {
    await expect(loadRewardFunction({ path: write('no_name.py', 'def score(): pass\n') })).rejects.toThrow(
      /has no function 'compute_score'; it has score/,
    );
    await expect(loadRewardFunction({ path: write('no_import.py', 'import not_a_module\n') })).rejects.toThrow(
      /not_a_module/,
    );
    const good = write('good.py', 'def compute_score(**k): return 1\n');
    await expect(loadRewardFunction({ path: good }, { python: '/no/such/python' })).rejects.toThrow(
      /cannot start .*VERLET_PYTHON/,
    );
  });
});

/** A killed process whose parent has not read its status yet is a zombie, not a survivor. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s*[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
