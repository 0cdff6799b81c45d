import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { globToRegExp, type HubSettings, resolveHubFiles, resolveModel } from './index.js';

const COMMIT = 'c'.repeat(40);
const weights = Buffer.from(Array.from({ length: 200_000 }, (_, i) => (i * 7) % 251));
const files: Record<string, Buffer> = {
  'config.json': Buffer.from('{"model_type": "qwen2"}'),
  'tokenizer.json': Buffer.from('{}'),
  'model.safetensors': weights,
  'pytorch_model.bin': Buffer.from('pickle'),
  'data/train-0.parquet': Buffer.from('a'),
  'data/train-1.parquet': Buffer.from('bb'),
  'data/test.parquet': Buffer.from('c'),
};

/** A hub that can misbehave: `faults` are consumed one per request for the weights. */
class FakeHub {
  requests: { url: string; range: string | undefined; authorization: string | undefined }[] = [];
  faults: ('cut' | 'corrupt' | 'error' | 'ignore-range' | 'stall')[] = [];
  listsBlobs = true;
  status = 200;
  private server!: Server;

  async start(): Promise<string> {
    this.server = createServer((request, response) => {
      const url = decodeURIComponent(request.url as string);
      this.requests.push({ url, range: request.headers.range, authorization: request.headers.authorization });
      if (this.status !== 200) return response.writeHead(this.status).end();
      if (url.startsWith('/api/')) return response.end(JSON.stringify(this.listing()));
      const path = url.split(`/resolve/${COMMIT}/`)[1] as string;
      let body = files[path] as Buffer;
      const etag = etagOf(path);
      if (request.method === 'HEAD') {
        return response.writeHead(200, { etag: `"${etag}"`, 'content-length': body.length }).end();
      }
      const fault = path.endsWith('.safetensors') ? this.faults.shift() : undefined;
      if (fault === 'error') return response.writeHead(503).end();
      let start = 0;
      const range = /bytes=(\d+)-/.exec(request.headers.range ?? '');
      if (range && fault !== 'ignore-range') start = Number(range[1]);
      body = Buffer.from(body.subarray(start));
      if (fault === 'corrupt') body[body.length - 1] = (body.at(-1) as number) ^ 1;
      response.writeHead(start > 0 ? 206 : 200, { 'content-length': body.length });
      if (fault === 'cut' || fault === 'stall') {
        response.write(body.subarray(0, Math.min(70_000, body.length - 1)), () => {
          if (fault === 'cut') response.destroy();
        });
      } else response.end(body);
    });
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  private listing() {
    const siblings = Object.entries(files).map(([rfilename, body]) => {
      if (!this.listsBlobs) return { rfilename };
      const isLarge = rfilename.endsWith('.safetensors');
      return isLarge
        ? { rfilename, size: body.length, lfs: { sha256: etagOf(rfilename), size: body.length } }
        : { rfilename, size: body.length, blobId: etagOf(rfilename) };
    });
    return { sha: COMMIT, siblings };
  }
}

function etagOf(path: string): string {
  const body = files[path] as Buffer;
  if (path.endsWith('.safetensors')) return createHash('sha256').update(body).digest('hex');
  return createHash('sha1').update(`blob ${body.length}\0`).update(body).digest('hex');
}

let hub: FakeHub;
let folder: string;
let settings: Partial<HubSettings>;
beforeEach(async () => {
  hub = new FakeHub();
  folder = mkdtempSync(join(tmpdir(), 'verlet-hub-'));
  settings = {
    endpoint: await hub.start(),
    cacheFolder: join(folder, 'hub'),
    token: null,
    isOffline: false,
    retryDelayMs: 1,
    idleTimeoutMs: 5000,
  };
});
afterEach(() => {
  hub.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe('resolveModel', () => {
  it('takes a folder as it is', async () => {
    expect(await resolveModel(folder, { settings })).toBe(folder);
    expect(hub.requests).toEqual([]);
  });

  it('downloads into the cache layout, with the token, and is content with it afterwards', async () => {
    const seen: number[] = [];
    const onProgress = ({ file, receivedBytes }: { file: string; receivedBytes: number }) => {
      if (file === 'model.safetensors') seen.push(receivedBytes);
    };
    const path = await resolveModel('org/tiny', { settings: { ...settings, token: 'secret' }, onProgress });
    expect(path).toBe(join(folder, 'hub', 'models--org--tiny', 'snapshots', COMMIT));
    expect(readdirSync(path).sort()).toEqual(['config.json', 'model.safetensors', 'tokenizer.json']);
    expect(readFileSync(join(path, 'model.safetensors')).equals(weights)).toBe(true);
    expect(realpathSync(join(path, 'config.json'))).toContain(join('blobs', etagOf('config.json')));
    expect(readFileSync(join(folder, 'hub', 'models--org--tiny', 'refs', 'main'), 'utf8')).toBe(COMMIT);
    expect(seen.at(-1)).toBe(weights.length);
    expect(hub.requests.every(({ authorization }) => authorization === 'Bearer secret')).toBe(true);

    const before = hub.requests.length;
    expect(await resolveModel('org/tiny', { settings })).toBe(path);
    expect(await resolveModel('org/tiny', { settings: { ...settings, isOffline: true } })).toBe(path);
    expect(hub.requests.length).toBe(before);
  });

  it('resumes a transfer that broke off', async () => {
    hub.faults = ['cut', 'error', 'cut'];
    const path = await resolveModel('org/tiny', { settings });
    expect(readFileSync(join(path, 'model.safetensors')).equals(weights)).toBe(true);
    const ranges = hub.requests.filter(({ url }) => url.endsWith('.safetensors')).map(({ range }) => range);
    expect(ranges[0]).toBeUndefined();
    expect(ranges.slice(1).every((range) => /^bytes=\d+-$/.test(range ?? ''))).toBe(true);
    expect(ranges.length).toBe(4);
  });

  it('resumes in a later run', async () => {
    hub.faults = ['cut', 'error'];
    await expect(resolveModel('org/tiny', { settings: { ...settings, maxAttempts: 1 } })).rejects.toThrow('Run again');
    const blobs = join(folder, 'hub', 'models--org--tiny', 'blobs');
    expect(readdirSync(blobs).filter((name) => name.endsWith('.incomplete'))).toHaveLength(1);
    expect(existsSync(join(folder, 'hub', 'models--org--tiny', 'refs', 'main'))).toBe(false);
    hub.faults = [];
    const path = await resolveModel('org/tiny', { settings });
    expect(hub.requests.at(-1)?.range ?? hub.requests.find(({ range }) => range)?.range).toMatch(/^bytes=/);
    expect(readFileSync(join(path, 'model.safetensors')).equals(weights)).toBe(true);
    expect(readdirSync(blobs).filter((name) => /lock|incomplete/.test(name))).toEqual([]);
  });

  it('survives a server that ignores ranges and one that falls silent', async () => {
    hub.faults = ['cut', 'ignore-range'];
    const first = await resolveModel('org/tiny', { settings });
    expect(readFileSync(join(first, 'model.safetensors')).equals(weights)).toBe(true);
    hub.faults = ['stall'];
    const other = { ...settings, cacheFolder: join(folder, 'other'), idleTimeoutMs: 300 };
    const second = await resolveModel('org/tiny', { settings: other });
    expect(readFileSync(join(second, 'model.safetensors')).equals(weights)).toBe(true);
  });

  it('fetches a corrupted file again, and refuses one that stays corrupted', async () => {
    hub.faults = ['corrupt'];
    const path = await resolveModel('org/tiny', { settings });
    expect(readFileSync(join(path, 'model.safetensors')).equals(weights)).toBe(true);
    hub.faults = ['corrupt', 'corrupt'];
    const other = { ...settings, cacheFolder: join(folder, 'other') };
    await expect(resolveModel('org/tiny', { settings: other })).rejects.toThrow(
      /corrupted twice: sha256 .* instead of/,
    );
    expect(
      readdirSync(join(folder, 'other', 'models--org--tiny', 'blobs')).some((name) =>
        name.startsWith(etagOf('model.safetensors')),
      ),
    ).toBe(false);
  });

  it('reads ETags where the listing has names only', async () => {
    hub.listsBlobs = false;
    const path = await resolveModel('org/tiny', { settings });
    expect(realpathSync(join(path, 'model.safetensors'))).toContain(etagOf('model.safetensors'));
  });

  it('lets two downloads of one model work together', async () => {
    const [a, b] = await Promise.all([resolveModel('org/tiny', { settings }), resolveModel('org/tiny', { settings })]);
    expect(a).toBe(b);
    expect(hub.requests.filter(({ url }) => url.endsWith('.safetensors'))).toHaveLength(1);
  });

  it('completes a snapshot of another tool that lacks the weights', async () => {
    const snapshot = join(folder, 'hub', 'models--org--tiny', 'snapshots', COMMIT);
    mkdirSync(snapshot, { recursive: true });
    mkdirSync(join(folder, 'hub', 'models--org--tiny', 'refs'));
    writeFileSync(join(folder, 'hub', 'models--org--tiny', 'refs', 'main'), COMMIT);
    writeFileSync(join(snapshot, 'config.json'), '{}');
    expect(existsSync(join(await resolveModel('org/tiny', { settings }), 'model.safetensors'))).toBe(true);
  });

  it('says what to do when it cannot', async () => {
    await expect(resolveModel('./nowhere', { settings })).rejects.toThrow('there is no folder');
    await expect(resolveModel('org/tiny', { settings: { ...settings, isOffline: true } })).rejects.toThrow(
      'HF_HUB_OFFLINE',
    );
    hub.status = 404;
    await expect(resolveModel('org/tiny@v2', { settings })).rejects.toThrow('no model org/tiny at revision v2');
    hub.status = 401;
    await expect(resolveModel('org/tiny', { settings })).rejects.toThrow('set HF_TOKEN');
    hub.status = 403;
    await expect(resolveModel('org/tiny', { settings: { ...settings, token: 't' } })).rejects.toThrow(
      'accept the licence',
    );
    const dead = { ...settings, endpoint: 'http://127.0.0.1:9', maxAttempts: 2 };
    await expect(resolveModel('org/tiny', { settings: dead })).rejects.toThrow('cannot reach http://127.0.0.1:9');
  });
});

describe('resolveHubFiles', () => {
  it('finds files by name and by glob', async () => {
    const one = await resolveHubFiles('hf://datasets/org/set/data/test.parquet', { settings });
    expect(one.map((path) => readFileSync(path, 'utf8'))).toEqual(['c']);
    const some = await resolveHubFiles('hf://datasets/org/set@main/data/train-*.parquet', { settings });
    expect(some.map((path) => readFileSync(path, 'utf8'))).toEqual(['a', 'bb']);
    expect(await resolveHubFiles('hf://datasets/org/set/data', { settings })).toHaveLength(3);
    await expect(resolveHubFiles('hf://datasets/org/set/nothing*', { settings })).rejects.toThrow('no file of org/set');
    await expect(resolveHubFiles('hf://org', { settings })).rejects.toThrow('is not a hub path');
  });
});

describe('globToRegExp', () => {
  it.each([
    ['*.json', 'a.json', true],
    ['*.json', 'b/a.json', false],
    ['**/*.json', 'a.json', true],
    ['**/*.json', 'c/b/a.json', true],
    ['data/{a,b}-?.p', 'data/b-1.p', true],
    ['[!a].x', 'a.x', false],
    ['a+b(c).x', 'a+b(c).x', true],
  ])('%s against %s: %s', (glob, path, matches) => expect(globToRegExp(glob).test(path)).toBe(matches));
});
