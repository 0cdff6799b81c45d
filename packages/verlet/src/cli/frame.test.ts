import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { UserError } from '../config/index.js';
import { COMMANDS, type CommandModule } from './command.js';
import { addConfigOptions, configFromCommandLine } from './config-options.js';
import { runCommandLine } from './frame.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-cli-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(words: string[], modules?: Record<string, CommandModule>, environment: Record<string, string> = {}) {
  let out = '';
  let err = '';
  const io = {
    print: (text: string) => {
      out += `${text}\n`;
    },
    note: (text: string) => {
      err += `${text}\n`;
    },
  };
  const load = modules === undefined ? {} : { load: async (name: string) => modules[name]! };
  const code = await runCommandLine(words, { io, environment, ...load });
  return { code, out, err };
}

const probe = (work: CommandModule['run']): Record<string, CommandModule> => ({
  train: {
    name: 'train',
    summary: 's',
    configure: (command) => command.argument('[settings...]').option('--config <file>'),
    run: work,
  },
});

describe('the frame', () => {
  it('teaches: all commands, settings, examples, exit codes', async () => {
    const { code, out } = await run(['--help'], {});
    expect(code).toBe(0);
    for (const { name, summary } of COMMANDS)
      expect(out).toMatch(new RegExp(`^  ${name} +${summary.slice(0, 10)}`, 'm'));
    expect(out).toContain('Examples:');
    expect(out).toContain('Exit codes:');
    expect(await run([], {})).toMatchObject({ code: 2, out });
  });

  it('suggests the command that was meant', async () => {
    expect(await run(['trian'], {})).toEqual({
      code: 2,
      out: '',
      err: 'verlet: there is no command "trian"; did you mean `verlet train`?\n',
    });
  });

  it('says when a command is not part of the build', async () => {
    const notes: string[] = [];
    const code = await runCommandLine(['absent'], {
      io: { print: () => {}, note: (line) => notes.push(line) },
      commands: [{ name: 'absent', summary: '' }],
    });
    expect({ code, notes }).toEqual({
      code: 1,
      notes: [expect.stringMatching(/this build of verlet has no `absent` command/)],
    });
  });

  it('hands words, options and exit codes through unchanged', async () => {
    const words = ['algorithm.adv_estimator=grpo', '+x.y=[1,2]', '~trainer.z', 'lr=-1e-6', "++a='b c'"];
    let seen: unknown;
    const modules = probe(async ({ args, options, isVerbose }) => {
      seen = { args, options, isVerbose };
      return 3;
    });
    expect((await run(['train', ...words, '--config', 'f.yaml', '--verbose'], modules)).code).toBe(3);
    expect(seen).toEqual({ args: words, options: { config: 'f.yaml', verbose: true }, isVerbose: true });
  });

  it('prints mistakes without stack, and with one when asked', async () => {
    const modules = probe(async () => {
      throw new UserError('the file is gone', { exitCode: 4, cause: new Error('ENOENT deep down') });
    });
    expect(await run(['train'], modules)).toEqual({ code: 4, out: '', err: 'verlet: the file is gone\n' });
    for (const [words, environment] of [
      [['train', '--verbose'], {}],
      [['train'], { VERLET_DEBUG: '1' }],
    ] as const) {
      const { code, err } = await run([...words], modules, environment);
      expect(code).toBe(4);
      expect(err).toContain('frame.test');
      expect(err).toContain('caused by: Error: ENOENT deep down');
    }
  });

  it('prints defects with their stack', async () => {
    const { code, err } = await run(
      ['train'],
      probe(async () => {
        throw new TypeError('undefined is not a function');
      }),
    );
    expect(code).toBe(70);
    expect(err).toContain('a defect of verlet');
    expect(err).toContain('frame.test');
  });

  it('explains wrong options, and subcommands work', async () => {
    expect(
      await run(
        ['train', '--nope'],
        probe(async () => 0),
      ),
    ).toMatchObject({ code: 2, err: expect.stringContaining("unknown option '--nope'") });
    let ran = '';
    const modules: Record<string, CommandModule> = {
      data: {
        name: 'data',
        summary: 's',
        configure: (command, { io }) => {
          command
            .command('inspect')
            .argument('<file>')
            .action((file: string) => {
              ran = file;
              io.print('done');
            });
        },
      },
    };
    expect(await run(['data', 'inspect', 'x.parquet', '--verbose'], modules)).toMatchObject({ code: 0, out: 'done\n' });
    expect(ran).toBe('x.parquet');
    expect(await run(['data', 'inspect'], modules)).toMatchObject({
      code: 2,
      err: expect.stringContaining("missing required argument 'file'"),
    });
    expect((await run(['help', 'data'], modules)).out).toContain('Usage: verlet data');
  });
});

describe('commands that take a configuration', () => {
  const needed = ['data.train_files=t.parquet', 'actor_rollout_ref.model.path=m'];
  let started: number | undefined;
  const modules: Record<string, CommandModule> = {
    train: {
      name: 'train',
      summary: 's',
      configure: (command) => void addConfigOptions(command),
      run: async (invocation) => {
        const composed = await configFromCommandLine('ppo', invocation);
        if (composed === null) return;
        started = composed.config.trainer.total_epochs;
      },
    },
  };

  it('start with notices on the side, or only print with --dry-run, or refuse', async () => {
    const words = [...needed, 'trainer.total_epochs=7', 'actor_rollout_ref.rollout.load_format=dummy'];
    const dry = await run(['train', ...words, '--dry-run'], modules);
    expect({ started, code: dry.code }).toEqual({ started: undefined, code: 0 });
    expect(dry.out).toMatch(/total_epochs: 7 +# command line/);
    expect(dry.err).toContain('batch plan');
    const real = await run(['train', ...words], modules);
    expect({ started, code: real.code, out: real.out }).toEqual({ started: 7, code: 0, out: '' });
    expect(real.err).toMatch(/^accepted, no effect here: actor_rollout_ref\.rollout\.load_format .*\n$/);
    expect(await run(['train'], modules)).toMatchObject({
      code: 2,
      err: expect.stringContaining('data.train_files: must be given'),
    });
  });
});

describe('verlet config', () => {
  it('prints the resolved tree with the origin of each value, and the plan', async () => {
    const file = join(folder, 'run.yaml');
    writeFileSync(file, 'data:\n  train_batch_size: 64\n');
    const { code, out, err } = await run([
      'config',
      '--config',
      file,
      'actor_rollout_ref.actor.ppo_mini_batch_size=16',
      'data.max_prompt_length=99',
      'trainer.total_epochs=3',
    ]);
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`^ {2}train_batch_size: 64 +# ${file}:2$`, 'm'));
    expect(out).toMatch(/^ {4}ppo_mini_batch_size: 16 +# command line$/m);
    expect(out).toMatch(/^ {4}prompt_length: 99 +# default, from \$\{data\.max_prompt_length\}$/m);
    expect(out).toMatch(/^ {6}lr: 1e-6 +# default$/m);
    expect(err).toContain('actor        4 optimiser steps of 16 prompts');
    expect(err).toContain('still to be given: data.train_files, actor_rollout_ref.model.path');
  });

  it('prints only what was asked for: changes, keys, JSON, explanations, a template, a schema', async () => {
    expect((await run(['config', '--changed', 'trainer.nnodes=2'])).out).toBe(
      'trainer:\n  nnodes: 2  # command line\n',
    );
    expect((await run(['config', '--only', 'retriever'])).out).toMatch(
      /^retriever:\n {2}url: .*\n {2}topk: 3 .*\n {2}timeout: 30 .*\n$/,
    );
    expect(JSON.parse((await run(['config', '--json', 'trainer.nnodes=2'])).out)).toMatchObject({
      config: { trainer: { nnodes: 2 } },
      provenance: { 'trainer.nnodes': 'command line' },
    });
    expect((await run(['config', '--explain', 'data.truncation'])).out).toContain(
      'takes one of error, left, right, middle; default error',
    );
    expect(await run(['config', '--explain', 'data.truncatoin'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('did you mean data.truncation?'),
    });
    expect((await run(['config', '--kind', 'sft', '--template'])).out).toContain('partial_pretrain: "???"');
    expect(JSON.parse((await run(['config', '--kind', 'evaluation', '--schema'])).out)).toMatchObject({
      properties: { data: { properties: { response_key: { default: 'responses' } } } },
    });
  });

  it("takes files in Hydra's way", async () => {
    writeFileSync(join(folder, 'mine.yaml'), 'trainer: { nnodes: 4 }\n');
    expect((await run(['config', `--config-path=${folder}`, '--config-name=mine', '--changed'])).out).toMatch(
      /nnodes: 4/,
    );
    expect((await run(['config', '--config-name=ppo_trainer', '--changed'])).code).toBe(0);
    expect(await run(['config', '--config-path=x'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('--config-name'),
    });
  });

  it('reads JavaScript modules as configuration', async () => {
    const file = join(folder, 'run.mjs');
    writeFileSync(file, 'export default { trainer: { nnodes: 4 } };\n');
    expect((await run(['config', '--config', file, '--changed'])).out).toMatch(/nnodes: 4 {2}# .*run\.mjs/);
    writeFileSync(join(folder, 'none.mjs'), 'export const a = 1;\n');
    expect(await run(['config', '--config', join(folder, 'none.mjs')])).toMatchObject({
      code: 2,
      err: expect.stringContaining('must export an object'),
    });
  });

  it('fails with exit code 2 and all problems', async () => {
    const { code, out, err } = await run(['config', 'a.b=1', 'trainer.nnodes=x']);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(
      /2 problems in the configuration:\n {2}- a: .*\n {2}- trainer\.nnodes: expected integer >= 1, got the text "x"/,
    );
  });
});

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

describe.skipIf(!existsSync(main))('the executable', () => {
  const execute = promisify(execFile);

  it('runs as a process: output, exit code, closed pipe', async () => {
    expect((await execute(process.execPath, [main, '--version'], { timeout: 60_000 })).stdout).toMatch(
      /^\d+\.\d+\.\d+\n$/,
    );
    await expect(execute(process.execPath, [main, 'config', 'nope=1'], { timeout: 60_000 })).rejects.toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('nope'),
    });
    const piped = await execute(
      'bash',
      ['-c', `set -o pipefail; "${process.execPath}" "${main}" config 2>/dev/null | head -1`],
      { timeout: 60_000 },
    );
    expect(piped.stdout).toBe('data:\n');
  });
});
if (!existsSync(main)) console.warn(`skipped: the executable (${main} is not built; run npx tsc -b)`);
