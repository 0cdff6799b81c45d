import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { short, smoothed } from '../../../dashboard/chart.mjs';
import { JsonlTracker } from '../../trainer/trackers/jsonl.js';
import { runCommandLine } from '../frame.js';

function runFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'verlet-dashboard-'));
  writeFileSync(path.join(folder, 'config.json'), JSON.stringify({ trainer: { rollout_data_dir: null } }));
  mkdirSync(path.join(folder, 'rollouts'));
  const rows = Array.from({ length: 25 }, (_, k) => `${JSON.stringify({ uid: `u${k}`, score: k, tokens: ['a'] })}\n`);
  writeFileSync(path.join(folder, 'rollouts', '10.jsonl'), rows.join(''));
  writeFileSync(path.join(folder, 'rollouts', '2.jsonl'), rows[0]!);
  return folder;
}

function dashboard(words: string[]) {
  const printed: string[] = [];
  const noted: string[] = [];
  const interrupt = new AbortController();
  const exit = runCommandLine(['dashboard', ...words], {
    io: { print: (text) => printed.push(text), note: (text) => noted.push(text) },
    signal: interrupt.signal,
  });
  return { printed, noted, interrupt, exit };
}

async function opened(...folders: string[]) {
  const run = dashboard([...folders, '--port', '0']);
  await vi.waitFor(() => expect(run.printed).toHaveLength(1), { timeout: 20_000 });
  const url = run.printed[0]!;
  const json = async (route: string): Promise<unknown> => (await fetch(new URL(route, url))).json();
  const close = async (): Promise<void> => {
    run.interrupt.abort();
    expect(await run.exit).toBe(0);
  };
  return { url, json, close };
}

/** Reads server-sent events until enough of them came. */
async function eventsUntil(
  url: string,
  enough: (events: RecordsEvent[]) => boolean,
  onEvent = (_: RecordsEvent[]) => {},
) {
  const response = await fetch(new URL('/api/events', url), { signal: AbortSignal.timeout(20_000) });
  const events: RecordsEvent[] = [];
  let text = '';
  for await (const chunk of response.body! as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString();
    const blocks = text.split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) events.push(JSON.parse(/^data: (.*)$/m.exec(block)![1]!) as RecordsEvent);
    onEvent(events);
    if (enough(events)) break;
  }
  return events;
}

interface RecordsEvent {
  run: number;
  reset: boolean;
  records: { step: number; data: Record<string, number> }[];
}

describe('verlet dashboard', () => {
  it('serves a page that needs nothing from elsewhere', async () => {
    const { url, close } = await opened(runFolder());
    const page = await (await fetch(url)).text();
    const links = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link!);
    expect(links).toEqual(['/style.css', '/app.mjs']);
    for (const link of [...links, '/chart.mjs']) {
      const response = await fetch(new URL(link, url));
      expect([link, response.status]).toEqual([link, 200]);
      expect(await response.text()).not.toMatch(/https?:\/\/(?!www\.w3\.org\/2000\/svg)/);
    }
    expect((await fetch(url)).headers.get('content-security-policy')).toBe("default-src 'self'");
    await close();
  });

  it('follows a run that goes on, also when a resume cuts its metrics', async () => {
    const folder = runFolder();
    const file = path.join(folder, 'metrics.jsonl');
    const tracker = new JsonlTracker(file);
    for (let step = 1; step <= 3; step++) tracker.log({ score: step, bad: Number.NaN }, step);
    appendFileSync(file, '{"step":4,"da');
    const { url, close } = await opened(folder);
    let resumed = false;
    const events = await eventsUntil(
      url,
      (all) => all.length === 2,
      () => {
        if (resumed) return;
        resumed = true;
        const again = new JsonlTracker(file);
        again.start(2);
        again.log({ score: 30 }, 3);
      },
    );
    expect(events[0]).toMatchObject({ run: 0, reset: false });
    expect(events[0]!.records.map(({ step, data }) => [step, data])).toEqual([
      [1, { score: 1 }],
      [2, { score: 2 }],
      [3, { score: 3 }],
    ]);
    expect(events[1]!.reset).toBe(true);
    expect(events[1]!.records.map(({ data }) => data.score)).toEqual([1, 2, 30]);
    await close();
  });

  it('shows trajectories page by page', async () => {
    const { json, close } = await opened(runFolder(), runFolder());
    expect(await json('/api/runs')).toMatchObject([
      { id: 0, rollouts: [2, 10], validation: [] },
      { id: 1, rollouts: [2, 10] },
    ]);
    const page = (await json('/api/runs/1/rollouts/10?offset=20&limit=10')) as {
      rows: { uid: string }[];
      total: number;
    };
    expect(page.total).toBe(25);
    expect(page.rows.map((row) => row.uid)).toEqual(['u20', 'u21', 'u22', 'u23', 'u24']);
    expect(await json('/api/runs/0/rollouts/99')).toEqual({ rows: [], total: 0 });
    expect(await json('/api/runs/7/config')).toEqual({ error: 'there is no run 7' });
    await close();
  });

  it('does not answer to names that others gave this machine', async () => {
    const { url, close } = await opened(runFolder());
    const status = await new Promise((resolve) => {
      request(new URL('/api/runs', url), { headers: { host: 'evil.example' } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).end();
    });
    expect(status).toBe(403);
    await close();
  });

  it.each([
    [['/nowhere/at/all'], 1, /there is no folder \/nowhere\/at\/all/],
    [[mkdtempSync(path.join(os.tmpdir(), 'verlet-empty-'))], 1, /not the folder of a run/],
    [['.', '--port', '70000'], 2, /at most 65535/],
  ])('says what is wrong with %j', async (words, exitCode, message) => {
    const run = dashboard(words);
    expect(await run.exit).toBe(exitCode);
    expect(run.noted.join('\n')).toMatch(message);
  });
});

describe('the page', () => {
  it('finds every element that its script asks for', () => {
    const script = readFileSync(new URL('../../../dashboard/app.mjs', import.meta.url), 'utf8');
    const ids = [...script.matchAll(/\$\('(\w+)'\)/g)].map(([, id]) => id);
    const page = readFileSync(new URL('../../../dashboard/index.html', import.meta.url), 'utf8');
    for (const id of ids) expect(page).toContain(`id="${id}"`);
  });

  it('smooths without pulling the start to zero', () => {
    expect(
      smoothed(
        [
          [1, 4],
          [2, 4],
          [3, 4],
        ],
        0.9,
      ).map(([, value]) => Number(value!.toFixed(9))),
    ).toEqual([4, 4, 4]);
    expect([0, 1234.5, 1e-5, 0.12345].map(short)).toEqual(['0', '1230', '1.0e-5', '0.123']);
  });
});
