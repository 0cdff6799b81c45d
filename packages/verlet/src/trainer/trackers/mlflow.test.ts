import { mkdtempSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { flatParams, MlflowTracker, mlflowName } from './mlflow.js';

type Json = Record<string, unknown>;

/** Holds requests to the contract of MLflow's REST API: what it would refuse is refused here. */
class MlflowServer {
  readonly experiments = new Map<string, string>();
  readonly runs = new Map<string, { status: string; metrics: Json[]; params: Map<string, string>; name: string }>();
  readonly problems: string[] = [];
  readonly authorizations = new Set<string | undefined>();
  /** Answers so many requests with 503 first. */
  unavailable = 0;
  requests = 0;
  private server: Server | null = null;

  async listen(): Promise<string> {
    this.server = createServer((request, response) => {
      let body = '';
      request.on('data', (data: Buffer) => {
        body += data.toString();
      });
      request.on('end', () => {
        this.requests++;
        this.authorizations.add(request.headers.authorization);
        const answer = (status: number, json: Json): void => {
          response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
        };
        if (this.unavailable > 0) {
          this.unavailable--;
          answer(503, {});
          return;
        }
        const url = new URL(request.url!, 'http://localhost');
        try {
          answer(200, this.answer(`${request.method} ${url.pathname}`, url.searchParams, body));
        } catch (error) {
          const { message } = error as Error;
          if (!message.startsWith('RESOURCE_DOES_NOT_EXIST')) this.problems.push(message);
          answer(message.startsWith('RESOURCE_DOES_NOT_EXIST') ? 404 : 400, {
            error_code: message.split(':')[0]!,
            message,
          });
        }
      });
    });
    await new Promise<void>((resolve) => this.server!.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server?.closeAllConnections();
    await new Promise((resolve) => this.server?.close(resolve) ?? resolve(null));
  }

  private answer(route: string, query: URLSearchParams, body: string): Json {
    const data = body ? (JSON.parse(body) as Json) : {};
    const fail = (message: string): never => {
      throw new Error(`INVALID_PARAMETER_VALUE: ${message}`);
    };
    if (body.length > 1e6) fail('request over 1 MB');
    const runOf = () => this.runs.get(data.run_id as string) ?? fail(`no run ${String(data.run_id)}`);
    switch (route) {
      case 'GET /api/2.0/mlflow/experiments/get-by-name': {
        const name = query.get('experiment_name') ?? fail('no experiment_name');
        const id = this.experiments.get(name);
        if (!id) throw new Error(`RESOURCE_DOES_NOT_EXIST: ${name}`);
        return { experiment: { experiment_id: id, name } };
      }
      case 'POST /api/2.0/mlflow/experiments/create': {
        const id = String(this.experiments.size + 1);
        this.experiments.set(String(data.name), id);
        return { experiment_id: id };
      }
      case 'POST /api/2.0/mlflow/runs/create': {
        if (![...this.experiments.values()].includes(data.experiment_id as string)) fail('no such experiment');
        const id = `run${this.runs.size + 1}`;
        this.runs.set(id, { status: 'RUNNING', metrics: [], params: new Map(), name: String(data.run_name) });
        return { run: { info: { run_id: id } } };
      }
      case 'POST /api/2.0/mlflow/runs/log-batch': {
        const { metrics = [], params = [] } = data as { metrics?: Json[]; params?: { key: string; value: string }[] };
        if (metrics.length > 1000 || params.length > 100) fail('too many items');
        for (const { key, value, timestamp, step } of metrics) {
          if (!/^[\w\-./ ]{1,250}$/.test(String(key))) fail(`metric name ${String(key)}`);
          if (typeof value !== 'number' && !['NaN', 'Infinity', '-Infinity'].includes(value as string)) fail('value');
          if (!Number.isInteger(timestamp) || !Number.isInteger(step)) fail('timestamp or step');
        }
        const run = runOf();
        for (const { key, value } of params) {
          if (run.params.has(key) && run.params.get(key) !== value) fail(`param ${key} changed`);
          if (typeof value !== 'string' || value.length > 500) fail(`param ${key} is no short text`);
          run.params.set(key, value);
        }
        run.metrics.push(...metrics);
        return {};
      }
      case 'POST /api/2.0/mlflow/runs/update': {
        const run = runOf();
        if (!['RUNNING', 'FINISHED', 'FAILED', 'KILLED'].includes(data.status as string)) fail('status');
        run.status = data.status as string;
        return {};
      }
      default:
        return fail(`no route ${route}`);
    }
  }
}

const servers: MlflowServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function setUp(config: unknown = { a: { b: 1 }, c: 'x' }) {
  const server = new MlflowServer();
  servers.push(server);
  const trackingUri = await server.listen();
  const runFolder = mkdtempSync(path.join(os.tmpdir(), 'verlet-mlflow-'));
  const said: string[] = [];
  const tracker = (finishSeconds = 10) =>
    new MlflowTracker({
      trackingUri,
      experiment: 'project',
      runName: 'run',
      runFolder,
      config,
      onTrouble: (text) => said.push(text),
      environment: { MLFLOW_TRACKING_USERNAME: 'me', MLFLOW_TRACKING_PASSWORD: 'secret' },
      retrySeconds: { first: 0.01, longest: 0.02 },
      finishSeconds,
    });
  return { server, tracker, said };
}

describe('the MLflow client', () => {
  it('holds to the contract, in batches, with names MLflow takes', async () => {
    const config = { wide: Object.fromEntries(Array.from({ length: 250 }, (_, k) => [`key${k}`, 'v'.repeat(700)])) };
    const { server, tracker, said } = await setUp(config);
    const run = tracker();
    run.start(0);
    const metrics = Object.fromEntries(Array.from({ length: 120 }, (_, k) => [`val-core/a/acc/mean@${k}`, k]));
    for (let step = 1; step <= 30; step++) run.log({ ...metrics, bad: Number.NaN }, step);
    await run.finish();
    expect([server.problems, said]).toEqual([[], []]);
    const [only] = [...server.runs.values()];
    expect(only!.status).toBe('FINISHED');
    expect(only!.metrics).toHaveLength(30 * 121);
    expect(only!.metrics[0]).toMatchObject({ key: 'val-core/a/acc/mean_at_0', value: 0, step: 1 });
    expect(only!.params.size).toBe(250);
    expect([...server.authorizations]).toEqual([`Basic ${Buffer.from('me:secret').toString('base64')}`]);
  });

  it('goes on with the same run after a resume and sends no step twice', async () => {
    const { server, tracker } = await setUp();
    const first = tracker();
    first.start(0);
    for (let step = 1; step <= 7; step++) first.log({ score: step }, step);
    await first.finish('interrupted');
    expect([...server.runs.values()][0]!.status).toBe('KILLED');
    const second = tracker();
    second.start(5);
    for (let step = 6; step <= 9; step++) second.log({ score: step }, step);
    await second.finish();
    expect(server.runs.size).toBe(1);
    const [only] = [...server.runs.values()];
    expect(only!.metrics.map((metric) => metric.step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(only!.status).toBe('FINISHED');
    expect(server.problems).toEqual([]);
  });

  it('waits for a server that is away for a while, and loses nothing', async () => {
    const { server, tracker, said } = await setUp();
    server.unavailable = 3;
    const run = tracker();
    run.start(0);
    for (let step = 1; step <= 5; step++) run.log({ score: step }, step);
    await run.finish();
    expect([...server.runs.values()][0]!.metrics).toHaveLength(5);
    expect(said).toEqual([expect.stringMatching(/answered 503.*trying again/)]);
  });

  it('gives up on a server that stays away, says so, and does not throw', async () => {
    const { server, tracker, said } = await setUp();
    await server.close();
    const run = tracker(0.05);
    run.start(0);
    for (let step = 1; step <= 5; step++) run.log({ score: step }, step);
    await run.finish();
    expect(said).toEqual([
      expect.stringMatching(/^mlflow: cannot reach http.*trying again/),
      expect.stringMatching(/5 entries were not delivered; metrics.jsonl has them all/),
    ]);
  });

  it('stops at a refusal instead of repeating it', async () => {
    const { server, tracker, said } = await setUp();
    const run = tracker();
    run.start(0);
    run.log({ score: 1 }, 1);
    await expect.poll(() => server.runs.size && [...server.runs.values()][0]!.metrics.length).toBe(1);
    server.runs.clear();
    run.log({ score: 2 }, 2);
    await expect.poll(() => said.length).toBe(1);
    const { requests } = server;
    run.log({ score: 3 }, 3);
    expect(said[0]).toMatch(/answered 400: .*no run run1.*nothing more is sent/);
    expect(server.requests).toBe(requests);
  });

  it('names and flattens', () => {
    expect(mlflowName('val-core/a b/acc/best@4(x)')).toBe('val-core/a b/acc/best_at_4_x_');
    expect(flatParams({ a: { b: null, c: [1, 2] }, d: 'text' })).toEqual([
      { key: 'a.b', value: 'null' },
      { key: 'a.c', value: '[1,2]' },
      { key: 'd', value: 'text' },
    ]);
  });
});
