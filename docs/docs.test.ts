/** What the pages claim: links lead somewhere, commands are understood, and blocks marked `run` are compiled and run. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { importModule } from 'verlet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommandLine } from '../packages/verlet/dist/cli/frame.js';
import { explainMetric, renderMetricReference } from '../packages/verlet/dist/trainer/metric-reference.js';
import { prepare } from '../recipes/gsm8k/prepare.mjs';
import { type Block, blocksOf, linksOf, verletCommands } from './blocks.ts';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const read = (page: string): string => readFileSync(path.join(root, page), 'utf8');
const filesIn = (place: string, isRecursive: boolean): string[] =>
  readdirSync(path.join(root, place), { recursive: isRecursive }).map((file) => path.join(place, String(file)));
const pages = [...filesIn('docs', true), ...filesIn('recipes', true), ...filesIn('.', false)]
  .filter((page) => page.endsWith('.md'))
  .sort();

/** Inside the workspace, so that blocks find its packages. */
const folder = path.join(root, 'node_modules/.cache/verlet', `docs-${process.pid}`);
const homeOf = (page: string): string => path.join(folder, page.replaceAll(/[/.]/g, '-'));
const runnable = pages.filter((page) => blocksOf(read(page)).some(({ isRun, file }) => isRun || file));
const settings = blocksOf(read('docs/getting-started.md')).find(({ file }) => file === 'run.yaml')!.text;

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  await prepare(path.join(folder, 'start'), { sftSteps: 5 });
  for (const page of runnable) {
    const home = homeOf(page);
    mkdirSync(home);
    symlinkSync(path.join(folder, 'start'), path.join(home, 'start'));
    // The pages' own settings, but few steps and nothing to wait for.
    const small = settings.replace(/total_training_steps: \d+/, 'total_training_steps: 1\n  logger: []\n  device: cpu');
    writeFileSync(path.join(home, 'run.yaml'), small.replace('val_files: start/test.parquet', 'val_files: null'));
    for (const [k, block] of blocksOf(read(page)).entries()) {
      if (block.file && block.file !== 'run.yaml') writeFileSync(path.join(home, block.file), block.text);
      if (block.isRun && block.language === 'ts') writeFileSync(path.join(home, `block-${k}.ts`), block.text);
    }
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function verlet(words: readonly string[]): Promise<string> {
  const said: string[] = [];
  const io = { print: (text: string) => void said.push(text), note: (text: string) => void said.push(text) };
  const code = await runCommandLine(words, { io });
  if (code !== 0) throw new Error(`verlet ${words.join(' ')} ended with ${code}:\n${said.join('\n')}`);
  return said.join('\n');
}

describe('links', () => {
  it.each(pages)('%s', (page) => {
    const missing = linksOf(read(page)).filter((target) => {
      const [file, anchor] = target.split('#');
      const full = file ? path.resolve(root, path.dirname(page), file) : path.join(root, page);
      if (!existsSync(full)) return true;
      if (!anchor || !full.endsWith('.md')) return false;
      const headings = [...readFileSync(full, 'utf8').matchAll(/^#+ (.*)$/gm)].map(([, text]) =>
        text!
          .toLowerCase()
          .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
          .replaceAll(' ', '-'),
      );
      return !headings.includes(anchor);
    });
    expect(missing).toEqual([]);
  });
});

describe('commands', () => {
  const withSettings = ['train', 'sft', 'generate', 'eval'];
  const commands = pages.flatMap((page) =>
    blocksOf(read(page))
      .filter(({ language, isRun }) => ['sh', 'bash'].includes(language) && !isRun)
      .flatMap(({ text }) => verletCommands(text).map((words) => ({ page, words, line: words.join(' ') }))),
  );
  it.each(commands)('$page: verlet $line', async ({ page, words }) => {
    const [name = '', ...rest] = words;
    if (!withSettings.includes(name)) {
      // Long options have to be ones that the help of the command (or of its subcommand) names.
      const sub = ['data', 'reward', 'retriever'].includes(name)
        ? rest.slice(0, name === 'data' && rest[0] === 'prepare' ? 2 : 1)
        : [];
      const help = await verlet([name, ...sub, '--help']);
      for (const word of rest) if (word.startsWith('--')) expect(help).toContain(word.split('=')[0]);
      return;
    }
    // Files of the person who reads the page are not here; their settings are.
    const known = rest.filter((word, k) => {
      const value = word === '--config' ? rest[k + 1]! : rest[k - 1] === '--config' ? word : null;
      return value === null || existsSync(path.join(root, value));
    });
    const before = process.cwd();
    process.chdir(root);
    try {
      await verlet([name, ...known, ...(known.includes('--dry-run') ? [] : ['--dry-run'])]);
    } finally {
      process.chdir(before);
    }
    expect(page).toBeTruthy();
  });
});

describe('blocks', () => {
  it('in TypeScript are well typed, and so is the code of the recipes', () => {
    const config = {
      extends: path.join(root, 'tsconfig.base.json'),
      compilerOptions: {
        noEmit: true,
        composite: false,
        incremental: false,
        types: ['node'],
        skipLibCheck: true,
        allowImportingTsExtensions: true,
      },
      include: ['*/*.ts', path.join(root, 'recipes/*/*.ts')],
      exclude: [path.join(root, 'recipes/*/*.test.ts')],
    };
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(config));
    const compiler = path.join(root, 'node_modules/.bin/tsc');
    let said = '';
    try {
      execFileSync(compiler, ['-p', folder], { encoding: 'utf8', timeout: 120_000 });
    } catch (error) {
      said = (error as { stdout: string }).stdout;
    }
    expect(said).toBe('');
  });

  const blocks = runnable.flatMap((page) =>
    blocksOf(read(page))
      .map((block, k) => ({ page, block, k, line: block.line }))
      .filter(({ block }) => block.isRun),
  );
  it.each(blocks)('$page, line $line, runs', async ({ page, block, k }) => {
    const before = process.cwd();
    process.chdir(homeOf(page));
    try {
      if (block.language === 'ts') await importModule(path.join(homeOf(page), `block-${k}.ts`));
      else
        for (const [at, words] of commandsIn(block).entries()) {
          await verlet(words);
          putAway(`${k}-${at}`);
        }
      putAway(`${k}`);
    } finally {
      process.chdir(before);
    }
  });
});

/** Blocks share the run folder of run.yaml: what one leaves there must not make the next one resume. */
function putAway(name: string): void {
  if (existsSync('runs/first')) renameSync('runs/first', `runs/first-${name}`);
}

function commandsIn(block: Block): string[][] {
  const commands = verletCommands(block.text);
  const lines = block.text.split('\n').filter((line) => line.trim() !== '');
  if (commands.length !== lines.length)
    throw new Error(`a block to run has lines that are not verlet's:\n${block.text}`);
  return commands;
}

describe('metrics', () => {
  it('the page is what the table says', () => {
    expect(read('docs/reference/metrics.md')).toBe(renderMetricReference());
  });

  it('of the runs above are all explained', () => {
    const files = runnable.flatMap((page) =>
      readdirSync(homeOf(page), { recursive: true })
        .map((file) => path.join(homeOf(page), String(file)))
        .filter((file) => file.endsWith('metrics.jsonl')),
    );
    expect(files.length).toBeGreaterThan(5);
    const names = new Set<string>();
    for (const file of files)
      for (const line of readFileSync(file, 'utf8').trim().split('\n')) {
        const record = JSON.parse(line) as Record<string, unknown>;
        for (const name of Object.keys((record.data ?? record) as object)) names.add(name);
      }
    const own = ['step', 'actor/ratio_mean'];
    expect([...names].filter((name) => !own.includes(name) && !explainMetric(name))).toEqual([]);
    expect(names.size).toBeGreaterThan(60);
  });
});
