import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import type net from 'node:net';
import { tmpdir } from 'node:os';
import { Duplex } from 'node:stream';
import { liveTensors, rand, type Tensor, tensor } from '@verlet/torch';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataProto } from '../../protocol/index.js';
import {
  Channel,
  ChannelClosedError,
  type ChannelOptions,
  connect,
  DeadlineError,
  encodeFrame,
  type Frame,
  FrameError,
  FrameReader,
  listen,
  packPayload,
  parseAddress,
  SharedMemory,
  unpackPayload,
} from './index.js';

interface Pair {
  near: Channel;
  far: Channel;
  /** The near end's raw stream. */
  stream: Duplex;
  close(): Promise<void>;
}

async function socketPair(
  far: ChannelOptions,
  options: Parameters<typeof listen>[1],
  near: ChannelOptions = {},
): Promise<Pair> {
  let accepted!: (socket: net.Socket) => void;
  const incoming = new Promise<net.Socket>((resolve) => {
    accepted = resolve;
  });
  const listener = await listen(accepted, options);
  const socket = await connect(listener.address, 5000);
  const nearChannel = new Channel(socket, near);
  const farChannel = new Channel(await incoming, far);
  return {
    near: nearChannel,
    far: farChannel,
    stream: socket,
    close: async () => {
      nearChannel.close();
      farChannel.close();
      await listener.close();
    },
  };
}

function memoryPair(far: ChannelOptions): Pair {
  const end = (): Duplex & { other?: Duplex } =>
    new Duplex({
      read() {},
      write(this: Duplex & { other?: Duplex }, chunk: Uint8Array, _, done) {
        this.other!.push(Buffer.from(chunk));
        done();
      },
      destroy(this: Duplex & { other?: Duplex }, error, done) {
        if (!this.other!.destroyed) this.other!.push(null);
        done(error);
      },
    });
  const a = end();
  const b = end();
  a.other = b;
  b.other = a;
  const near = new Channel(a);
  const other = new Channel(b, far);
  return {
    near,
    far: other,
    stream: a,
    close: async () => {
      near.close();
      other.close();
    },
  };
}

const transports: Record<string, (far: ChannelOptions) => Promise<Pair>> = {
  memory: async (far) => memoryPair(far),
  unix: (far) => socketPair(far, { kind: 'unix' }),
  tcp: (far) => socketPair(far, { kind: 'tcp', host: '127.0.0.1' }),
  'unix with shared memory': async (far) => {
    const memory = SharedMemory.create();
    const shared = memory && new SharedMemory(memory.folder, 1);
    const pair = await socketPair({ ...far, sharedMemory: shared }, { kind: 'unix' }, { sharedMemory: shared });
    return {
      ...pair,
      close: async () => {
        await pair.close();
        if (memory) expect(readdirSync(memory.folder)).toEqual([]);
        memory?.remove();
      },
    };
  },
};

let liveBefore = 0;
beforeEach(() => {
  liveBefore = liveTensors().count;
});
afterEach(() => {
  expect(liveTensors().count).toBe(liveBefore);
});

describe.each(Object.entries(transports))('%s', (_, open) => {
  let pair: Pair;
  const limit = { timeoutMs: 20_000 };
  afterEach(() => pair.close());

  it('brings plain values there and back', async () => {
    pair = await open({ handle: (_method, args) => args });
    const values = [
      null,
      1.5,
      -(2 ** 40),
      'héllo',
      [1, [2]],
      { a: { b: undefined, c: [null] } },
      new Map([['k', new Set([1])]]),
      new Float32Array([1, 2]),
      new Uint8Array([255]),
      new Date(0),
      Number.NaN,
      Number.POSITIVE_INFINITY,
    ];
    expect(await pair.near.request('echo', values, limit)).toEqual(values);
  });

  it('brings batches with raw tensors', async () => {
    pair = await open({
      handle: (_method, [batch]) => {
        const data = batch as DataProto;
        data.set('double', data.tensor('x').mul(2));
        data.metaInfo.seen = true;
        return data;
      },
      onSent: (data) => (data as DataProto).dispose(),
    });
    const x = rand([5, 1000]);
    const before = x.toFloat32Array();
    const data = DataProto.fromDict({
      tensors: { x, flag: tensor([true, false, true, true, false], { dtype: 'bool' }) },
      nonTensors: { row: [{ a: 1 }, null, 'x', [1], 2.5] },
    });
    const back = (await pair.near.request('double', [data], limit)) as DataProto;
    expect(back.tensor('x').toFloat32Array()).toEqual(before);
    expect(back.tensor('double').toFloat32Array()).toEqual(before.map((value) => value * 2));
    expect(back.tensor('flag').dtype).toBe('bool');
    expect(back.column('row')).toEqual(data.column('row'));
    expect(back.metaInfo).toEqual({ seen: true });
    data.dispose();
    back.dispose();
  });

  it('keeps requests apart when answers come out of order', async () => {
    let release!: () => void;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    pair = await open({
      handle: async (method) => {
        if (method === 'slow') await gate;
        else release();
        return method;
      },
    });
    const answers = await Promise.all([pair.near.request('slow', [], limit), pair.near.request('fast', [], limit)]);
    expect(answers).toEqual(['slow', 'fast']);
  });

  it("brings the other end's error with its stack", async () => {
    pair = await open({
      handle: () => {
        throw new RangeError('row 7 is empty');
      },
    });
    await expect(pair.near.request('compute', [], limit)).rejects.toMatchObject({
      remoteName: 'RangeError',
      remoteMessage: 'row 7 is empty',
      remoteStack: expect.stringContaining('conformance.test'),
    });
  });

  it('fails a request at its deadline and goes on', async () => {
    pair = await open({ handle: (method) => (method === 'never' ? new Promise(() => {}) : 'here') });
    await expect(pair.near.request('never', [], { timeoutMs: 30 })).rejects.toThrow(DeadlineError);
    expect(await pair.near.request('ping', [], limit)).toBe('here');
  });

  it('fails what waits, and what comes later, when the other end goes', async () => {
    pair = await open({ handle: () => new Promise(() => {}) });
    const waiting = pair.near.request('never', [], limit);
    pair.far.close();
    await expect(waiting).rejects.toThrow(ChannelClosedError);
    await expect(pair.near.request('later', [], limit)).rejects.toThrow(ChannelClosedError);
  });

  it('refuses functions by name', async () => {
    pair = await open({ handle: () => null });
    const myReward = () => 1;
    await expect(pair.near.request('call', [{ myReward }], limit)).rejects.toThrow(/function myReward cannot go/);
  });

  it('closes on bytes that are no frame', async () => {
    let closed!: (error: Error | null) => void;
    const seen = new Promise<Error | null>((resolve) => {
      closed = resolve;
    });
    pair = await open({ handle: () => null, onClose: closed });
    pair.stream.write('GET / HTTP/1.1\r\n\r\n');
    expect(await seen).toBeInstanceOf(FrameError);
  });
});

it('packs any JSON value, however many shapes its objects have', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      // msgpackr renames this key, so that no message can set a prototype.
      fc.pre(!JSON.stringify(value).includes('"__proto__"'));
      const { header, tensors } = packPayload(value);
      expect(tensors).toEqual([]);
      expect(unpackPayload(header, [])).toEqual(JSON.parse(JSON.stringify(value)));
    }),
    { numRuns: 300 },
  );
  const shapes = Array.from({ length: 5000 }, (_, k) => ({ [`key${k}`]: k, shared: { [`other${k % 100}`]: [k] } }));
  expect(unpackPayload(packPayload(shapes).header, [])).toEqual(shapes);
  expect(unpackPayload(packPayload(shapes).header, [])).toEqual(shapes);
});

describe('frames', () => {
  it('come out as they went in, whatever the chunks', () => {
    const bytes = fc.uint8Array({ maxLength: 40 });
    fc.assert(
      fc.property(
        fc.array(fc.record({ header: bytes, attachments: fc.array(bytes, { maxLength: 3 }) }), { maxLength: 4 }),
        fc.integer({ min: 1, max: 17 }),
        (frames, size) => {
          const stream = Buffer.concat(frames.flatMap(encodeFrame));
          const seen: Frame[] = [];
          const reader = new FrameReader((frame) => seen.push(frame));
          for (let k = 0; k < stream.length; k += size) reader.push(stream.subarray(k, k + size));
          const plain = (list: Frame[]) =>
            list.map(({ header, attachments }) => [[...header], attachments.map((part) => [...part])]);
          expect(plain(seen)).toEqual(plain(frames));
        },
      ),
    );
  });

  it('refuses more than the limit before reading it', () => {
    const reader = new FrameReader(() => expect.unreachable(), 100);
    const [prefix] = encodeFrame({ header: new Uint8Array(1), attachments: [randomBytes(1000)] });
    expect(() => reader.push(prefix!)).toThrow(/1001 bytes where 100 are allowed/);
  });
});

it('names a wrong address and a listener that is not there', async () => {
  expect(() => parseAddress('http://x')).toThrow(/no address/);
  expect(parseAddress('tcp:[::1]:80')).toEqual({ kind: 'tcp', host: '::1', port: 80 });
  await expect(connect('unix:/nonexistent/socket', 1000)).rejects.toThrow(/cannot connect to unix:\/nonexistent/);
});

it('removes the folders of killed controllers', () => {
  if (!existsSync('/dev/shm')) return console.log('no /dev/shm here: nothing to remove');
  const memory = SharedMemory.create()!;
  const dead = new SharedMemory('/dev/shm/verlet-ranks-999999999-test');
  const value = tensor([1]);
  dead.put([value]);
  value.dispose();
  SharedMemory.create()!.remove();
  expect(existsSync(dead.folder)).toBe(false);
  expect(existsSync(memory.folder)).toBe(true);
  memory.remove();
});

it('sends tensors through the socket while shared memory is full', async () => {
  const full = new SharedMemory(tmpdir(), 0, () => {
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  });
  let got: number[] = [];
  const pair = memoryPair({
    handle: (_, [value]) => {
      got = (value as Tensor).toArray() as number[];
      (value as Tensor).dispose();
    },
  });
  pair.near.sharedMemory = full;
  const value = tensor([1, 2, 3]);
  await pair.near.request('take', [value], { timeoutMs: 5000 });
  value.dispose();
  expect(got).toEqual([1, 2, 3]);
  await pair.close();
});
