import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { WandbTracker } from './index.js';

const python = process.env.VERLET_PYTHON ?? 'python3';
const hasPython = spawnSync(python, ['-c', '']).status === 0;
if (!hasPython) console.log(`skipped: there is no ${python} to run the side process with`);

/** A module of wandb's shape that writes down how it was called. */
const RECORDER = `
import json, os
class Table:
    def __init__(self, columns, data): self.columns, self.data = columns, data
class Run:
    def log(self, data, step): note("log", {k: (v.data if isinstance(v, Table) else repr(v)) for k, v in data.items()}, step)
    def finish(self, exit_code): note("finish", exit_code)
def note(*what):
    with open(os.environ["RECORD"], "a") as f: f.write(json.dumps(what) + "\\n")
def init(**options):
    print("chatter on standard output must not disturb")
    note("init", {k: options[k] for k in ("project", "name", "id", "resume")})
    return Run()
`;

function setUp(modules: Record<string, string>) {
  const home = mkdtempSync(path.join(os.tmpdir(), 'verlet-wandb-'));
  for (const [name, text] of Object.entries(modules)) {
    mkdirSync(path.join(home, 'modules'), { recursive: true });
    writeFileSync(path.join(home, 'modules', name), text);
  }
  const record = path.join(home, 'record.jsonl');
  const said: string[] = [];
  const tracker = (environment: NodeJS.ProcessEnv = {}) =>
    new WandbTracker({
      project: 'p',
      runName: 'r',
      runFolder: home,
      config: { lr: 0.1 },
      onTrouble: (text) => said.push(text),
      environment: { PATH: process.env.PATH, PYTHONPATH: path.join(home, 'modules'), RECORD: record, ...environment },
      python,
      startSeconds: 30,
      finishSeconds: 30,
      retrySeconds: { first: 0.01, longest: 0.02 },
    });
  const recorded = (): unknown[][] =>
    existsSync(record)
      ? readFileSync(record, 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as unknown[])
      : [];
  return { tracker, said, recorded };
}

/** A module that cannot be imported, whatever is installed. */
const ABSENT = { 'wandb.py': 'raise ImportError("not here")' };

describe.skipIf(!hasPython)('Weights & Biases', () => {
  it('is fed through its own package, and a resumed run keeps its id', async () => {
    const { tracker, said, recorded } = setUp({ 'wandb.py': RECORDER });
    const first = tracker();
    first.start(0);
    first.log({ score: 0.5, bad: Number.NaN }, 1);
    first.generations([{ prompt: 'q', response: 'a', score: 1, dataSource: 's', groundTruth: 1 }], 1);
    await first.finish();
    const second = tracker();
    second.start(1);
    second.log({ score: 0.75 }, 2);
    await second.finish('failed');
    expect(said).toEqual([]);
    const [opened, ...rest] = recorded() as [[string, { id: string }], ...unknown[][]];
    expect(opened[1]).toMatchObject({ project: 'p', name: 'r', resume: 'allow' });
    expect(rest).toEqual([
      ['log', { score: '0.5', bad: 'nan' }, 1],
      ['log', { 'val/generations': [[1, 'q', 'a', 1]] }, 1],
      ['finish', 0],
      ['init', opened[1]],
      ['log', { score: '0.75' }, 2],
      ['finish', 1],
    ]);
  });

  it('says what to do when it is not there, and the run goes on', async () => {
    const { tracker, said } = setUp(ABSENT);
    const run = tracker();
    run.start(0);
    run.log({ score: 1 }, 1);
    await run.finish();
    expect(said).toEqual([expect.stringMatching(/wandb is not installed.*WANDB_API_KEY is not set.*metrics.jsonl/)]);
  });

  it('says so when its process dies in the middle', async () => {
    const dying = `${RECORDER}\nimport sys\ndef die(self, data, step):\n    sys.exit(7)\nRun.log = die\n`;
    const { tracker, said } = setUp({ 'wandb.py': dying });
    const run = tracker();
    run.start(0);
    run.log({ score: 1 }, 1);
    await expect.poll(() => said, { timeout: 20_000 }).toEqual([expect.stringMatching(/ended with code 7/)]);
    run.log({ score: 2 }, 2);
    await run.finish();
  });

  it('goes over HTTP when only a key is there, and goes on where the history ends', async () => {
    const posts: { url: string; authorization?: string; body: Record<string, never> }[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (data: Buffer) => {
        body += data.toString();
      });
      request.on('end', () => {
        posts.push({ url: request.url!, authorization: request.headers.authorization, body: JSON.parse(body) });
        const bucket = { name: 'id', historyLineCount: 5, project: { name: 'p', entity: { name: 'me' } } };
        response.end(JSON.stringify(request.url === '/graphql' ? { data: { upsertBucket: { bucket } } } : {}));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { tracker, said } = setUp(ABSENT);
    const run = tracker({ WANDB_API_KEY: 'key', WANDB_BASE_URL: url });
    run.start(0);
    run.log({ score: 1 }, 6);
    run.log({ score: 2 }, 7);
    await run.finish();
    server.closeAllConnections();
    server.close();
    expect(said).toEqual([]);
    expect(posts[0]!.authorization).toBe(`Basic ${Buffer.from('api:key').toString('base64')}`);
    expect(posts[0]!.body).toMatchObject({ variables: { project: 'p', displayName: 'r' } });
    const streamed = posts.slice(1).map(({ url, body }) => [url, body] as const);
    expect(new Set(streamed.map(([url]) => url))).toEqual(new Set(['/files/me/p/id/file_stream']));
    const lines = streamed.flatMap(([, body]) => {
      const { files } = body as { files?: Record<string, { offset: number; content: string[] }> };
      const history = files?.['wandb-history.jsonl'];
      return history ? history.content.map((line, k) => [history.offset + k, JSON.parse(line)]) : [];
    });
    expect(lines).toEqual([
      [5, expect.objectContaining({ score: 1, _step: 6 })],
      [6, expect.objectContaining({ score: 2, _step: 7 })],
    ]);
    expect(streamed.at(-1)![1]).toEqual({ complete: true, exitcode: 0 });
  });
});
