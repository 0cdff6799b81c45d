/** The dashboard's server: a page without a build step, and what it asks for as JSON. It only reads. */
import { readFile } from 'node:fs/promises';
import { Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import type { MetricRecord } from '../../trainer/trackers/jsonl.js';
import type { DumpKind, RunFiles } from './run-files.js';

const PAGE = new URL('../../../dashboard/', import.meta.url);
const FILES: Readonly<Record<string, [file: string, type: string]>> = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/app.mjs': ['app.mjs', 'text/javascript; charset=utf-8'],
  '/chart.mjs': ['chart.mjs', 'text/javascript; charset=utf-8'],
  '/style.css': ['style.css', 'text/css; charset=utf-8'],
};

export interface DashboardOptions {
  /** Hosts that a browser may name: a page elsewhere must not reach us through a name of its own (DNS rebinding). */
  hosts: readonly string[];
  /** Milliseconds between looks at a growing file. */
  pollMilliseconds?: number;
}

export function dashboardApp(runs: readonly RunFiles[], options: DashboardOptions): Hono {
  const { hosts, pollMilliseconds = 500 } = options;
  const app = new Hono();
  app.use(async (context, next) => {
    const host = (context.req.header('host') ?? '').replace(/:\d+$/, '');
    if (!hosts.includes(host))
      return context.text(`this server does not answer to the name ${JSON.stringify(host)}`, 403);
    await next();
    context.header('content-security-policy', "default-src 'self'");
    context.header('cache-control', 'no-store');
  });
  for (const [route, [file, type]] of Object.entries(FILES))
    app.get(route, async (context) =>
      context.body(await readFile(new URL(file, PAGE), 'utf8'), 200, { 'content-type': type }),
    );

  app.get('/api/runs', (context) =>
    context.json(
      runs.map((run, id) => ({
        id,
        name: run.name,
        folder: run.folder,
        rollouts: run.dumpedSteps('rollouts'),
        validation: run.dumpedSteps('validation'),
      })),
    ),
  );
  app.get('/api/runs/:run/config', (context) => context.json(runOf(context.req.param('run')).config()));
  app.get('/api/runs/:run/:kind{rollouts|validation}/:step{\\d+}', async (context) => {
    const { run, kind, step } = context.req.param();
    const offset = bounded(context.req.query('offset'), 0, 0, Number.MAX_SAFE_INTEGER);
    const limit = bounded(context.req.query('limit'), 20, 1, 200);
    return context.json(await runOf(run).dumpedRows(kind as DumpKind, Number(step), offset, limit));
  });

  // Each event holds some records of one run; `reset` says that earlier ones are void.
  app.get('/api/events', (context) =>
    streamSSE(context, async (stream) => {
      const next = runs.map(() => 0);
      while (!stream.aborted && !stream.closed) {
        for (const [id, run] of runs.entries()) {
          const { records, next: after, isCut: reset } = await run.records(next[id]!);
          if (records.length === 0 && !reset) continue;
          next[id] = after;
          await stream.writeSSE({
            event: 'records',
            data: JSON.stringify({ run: id, reset, records: records.map(plain) }),
          });
        }
        await stream.sleep(pollMilliseconds);
      }
    }),
  );
  app.onError((error, context) =>
    error instanceof NoSuchRunError
      ? context.json({ error: error.message }, 404)
      : context.json({ error: error.message }, 500),
  );
  return app;

  function runOf(id: string): RunFiles {
    const run = runs[Number(id)];
    if (!run) throw new NoSuchRunError(`there is no run ${id}`);
    return run;
  }
}

class NoSuchRunError extends Error {}

function bounded(text: string | undefined, standard: number, low: number, high: number): number {
  const value = Math.floor(Number(text ?? standard));
  return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : standard;
}

/** What is no number has no place on a curve. */
function plain({ step, time, data }: MetricRecord): MetricRecord {
  return { step, time, data: Object.fromEntries(Object.entries(data).filter(([, value]) => Number.isFinite(value))) };
}
