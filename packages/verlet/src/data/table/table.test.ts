import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { describeType, openTable, type Row, writeParquet } from './index.js';

const folder = mkdtempSync(join(tmpdir(), 'verlet-table-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let serial = 0;
const fresh = (extension = 'parquet') => join(folder, `t${serial++}.${extension}`);

const python = process.env.VERLET_PYTHON ?? 'python3';
const hasPyarrow = (() => {
  try {
    execFileSync(python, ['-c', 'import pyarrow.parquet'], { stdio: 'ignore', timeout: 60_000 });
    return true;
  } catch {
    return false;
  }
})();

async function readAll(paths: string | string[]): Promise<Row[]> {
  const table = await openTable(paths);
  const rows: Row[] = [];
  for await (const row of table.rows()) rows.push(row);
  await table.close();
  return rows;
}

const nullable = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null, freq: 4 });
const text = fc.string({ unit: 'grapheme', maxLength: 12 });
const messages = fc.array(nullable(fc.record({ role: nullable(text), content: nullable(text) })), { maxLength: 4 });
/** Rows in the shape of training data, with nulls and empties at every level. */
const chatRow = fc.record({
  data_source: text,
  prompt: nullable(messages),
  reward_model: nullable(fc.record({ style: nullable(text), ground_truth: nullable(text) })),
  extra_info: nullable(
    fc.record({
      index: nullable(fc.maxSafeInteger()),
      score: nullable(
        fc
          .double({ noNaN: true, noDefaultInfinity: true })
          .map((value) => (Number.isSafeInteger(value) ? value + 0.5 : value)),
      ),
      flag: nullable(fc.boolean()),
      tags: nullable(fc.array(nullable(text), { maxLength: 3 })),
      grid: nullable(fc.array(nullable(fc.array(nullable(fc.integer()), { maxLength: 3 })), { maxLength: 3 })),
    }),
  ),
  bytes: nullable(fc.uint8Array({ maxLength: 5 })),
  when: nullable(fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) })),
});
/** Rows that share a random type; fields have awkward names, values are null now and then. */
const fieldName = fc.constantFrom('a', 'b', 'list', 'element', 'a.b', '数 据', 'constructor');
const anyType: fc.Arbitrary<fc.Arbitrary<unknown>> = fc.letrec<{ type: fc.Arbitrary<unknown> }>((tie) => ({
  type: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<fc.Arbitrary<unknown>[]>(
      text,
      fc.maxSafeInteger(),
      fc.boolean(),
      fc.constant(0.5),
      fc.uint8Array({ maxLength: 3 }),
    ),
    tie('type').map((element) => fc.array(nullable(element as fc.Arbitrary<unknown>), { maxLength: 3 })),
    fc
      .uniqueArray(fc.tuple(fieldName, tie('type')), { minLength: 1, maxLength: 3, selector: ([name]) => name })
      .map((fields) =>
        fc
          .tuple(...fields.map(([, field]) => nullable(field as fc.Arbitrary<unknown>)))
          .map((values) => Object.fromEntries(fields.map(([name], i) => [name, values[i]]))),
      ),
  ),
})).type;
const anyRows = fc
  .uniqueArray(fc.tuple(fieldName, anyType), { minLength: 1, maxLength: 3, selector: ([name]) => name })
  .chain((columns) =>
    fc.array(
      fc
        .tuple(...columns.map(([, type]) => nullable(type)))
        .map((values) => Object.fromEntries(columns.map(([name], i) => [name, values[i]])) as Row),
      { minLength: 1, maxLength: 8 },
    ),
  );

const schema = {
  data_source: { kind: 'string' },
  prompt: {
    kind: 'list',
    element: { kind: 'struct', fields: { role: { kind: 'string' }, content: { kind: 'string' } } },
  },
  reward_model: { kind: 'struct', fields: { style: { kind: 'string' }, ground_truth: { kind: 'string' } } },
  extra_info: {
    kind: 'struct',
    fields: {
      index: { kind: 'int64' },
      score: { kind: 'double' },
      flag: { kind: 'boolean' },
      tags: { kind: 'list', element: { kind: 'string' } },
      grid: { kind: 'list', element: { kind: 'list', element: { kind: 'int64' } } },
    },
  },
  bytes: { kind: 'binary' },
  when: { kind: 'timestamp' },
} as const;

describe('Parquet', () => {
  it('gives nested rows back as they were', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(chatRow, { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 1, max: 7 }),
        async (rows, rowGroupSize) => {
          const path = fresh();
          await writeParquet(path, rows, { rowGroupSize, schema });
          expect(await readAll(path)).toEqual(rows);
          rmSync(path);
        },
      ),
      { numRuns: 150 },
    );
  });

  it('gives rows of any nested type back with the schema it infers', async () => {
    await fc.assert(
      fc.asyncProperty(anyRows, async (rows) => {
        const path = fresh();
        try {
          await writeParquet(path, rows, { rowGroupSize: 3 });
        } catch (error) {
          // The field named a.b may collide with a field b inside a.
          fc.pre(!String(error).includes('two fields have this path'));
          throw error;
        }
        expect(await readAll(path)).toEqual(rows);
        rmSync(path);
      }),
      { numRuns: 150 },
    );
  });

  it('infers nested types instead of storing text', async () => {
    const path = fresh();
    const rows = [
      { prompt: [{ role: 'user', content: 'a' }], extra_info: { index: 1, ratio: 1 }, empty: {}, none: null },
      { prompt: [], extra_info: { index: 2 ** 40, ratio: 0.5, late: 'x' }, empty: {}, none: null },
    ];
    const { schema } = await writeParquet(path, rows);
    expect(describeType({ kind: 'struct', fields: schema })).toBe(
      'struct<prompt: list<struct<role: string, content: string>>, ' +
        'extra_info: struct<index: int64, ratio: double, late: string>, empty: json, none: null>',
    );
    expect(await readAll(path)).toEqual([
      {
        prompt: [{ role: 'user', content: 'a' }],
        extra_info: { index: 1, ratio: 1, late: null },
        empty: {},
        none: null,
      },
      rows[1],
    ]);
  });

  it('keeps integers that a number cannot hold, and numbers that are not finite', async () => {
    const path = fresh();
    await writeParquet(path, [
      { id: 2n ** 62n, x: Number.NaN },
      { id: 5, x: -Infinity },
    ]);
    expect(await readAll(path)).toEqual([
      { id: 2n ** 62n, x: Number.NaN },
      { id: 5, x: -Infinity },
    ]);
  });

  it('keeps a byte order mark', async () => {
    const path = fresh();
    await writeParquet(path, [{ text: '\uFEFFa' }]);
    expect(await readAll(path)).toEqual([{ text: '\uFEFFa' }]);
  });

  it('writes a stream, and only under the final name when whole', async () => {
    const path = fresh();
    async function* many(end: number) {
      for (let index = 0; index < end; index++) yield { index, text: `row ${index}` };
    }
    await writeParquet(path, many(25_000), { inferRows: 100 });
    const table = await openTable(path);
    expect(table.numRows).toBe(25_000);
    expect(await table.row(24_999)).toEqual({ index: 24_999, text: 'row 24999' });
    await table.close();
    const broken = fresh();
    async function* breaking() {
      yield* many(30);
      throw new Error('source died');
    }
    await expect(writeParquet(broken, breaking(), { rowGroupSize: 5 })).rejects.toThrow('source died');
    expect(readdirSync(folder).filter((name) => name.includes('.tmp') || broken.endsWith(name))).toEqual([]);
  });

  it('names row and column of a value that does not fit', async () => {
    const rows = [{ a: { b: [1] } }, { a: { b: ['x'] } }];
    await expect(writeParquet(fresh(), rows)).rejects.toThrow(
      /row 1, column "a\.b\[\]": holds string, earlier rows hold int64/,
    );
    await expect(writeParquet(fresh(), [{ a: { 'b.c': 1, b: { c: 2 } } }])).rejects.toThrow(
      'column "a.b.c": two fields have this path',
    );
    const proto = JSON.parse('{"a": {"__proto__": 1}}') as Row;
    await expect(writeParquet(fresh(), [proto])).rejects.toThrow('column "a.__proto__": a field cannot have this name');
    const path = fresh();
    await writeParquet(path, rows, { mixed: 'json' });
    expect(await readAll(path)).toEqual(rows);
    async function* late() {
      yield { a: 1 };
      yield { a: 'x' };
    }
    await expect(writeParquet(fresh(), late(), { inferRows: 1 })).rejects.toThrow(
      /row 1, column "a": is to hold int64, got a string "x"/,
    );
  });

  it('says that a footer is broken', async () => {
    const path = fresh();
    await writeParquet(path, [{ a: 1 }]);
    const whole = readFileSync(path);
    const cut = fresh();
    writeFileSync(cut, whole.subarray(0, whole.length - 10));
    await expect(openTable(cut)).rejects.toThrow(`${cut}: the Parquet footer cannot be read`);
    writeFileSync(cut, 'x');
    await expect(openTable(cut)).rejects.toThrow('too few for a Parquet file');
    const noise = Buffer.from(whole);
    noise.fill(0xff, whole.length - 40, whole.length - 8);
    writeFileSync(cut, noise);
    await expect(openTable(cut)).rejects.toThrow('footer cannot be read');
  });
});

describe('openTable', () => {
  it('joins files, folders and globs, and knows where a row came from', async () => {
    const root = join(folder, 'many');
    mkdirSync(join(root, 'deep'), { recursive: true });
    await writeParquet(join(root, 'a.parquet'), [{ n: 0 }, { n: 1 }]);
    writeFileSync(join(root, 'b.jsonl'), '{"n": 2}\n\n  {"n": 3, "extra": "é"}');
    writeFileSync(join(root, 'deep', 'c.json'), '[{"n": 4}]');
    writeFileSync(join(root, 'd.json'), '{"n": 5}\n{"n": 6}\n');
    writeFileSync(join(root, 'notes.txt'), 'no data');
    const numbers = async (paths: string | string[]) => (await readAll(paths)).map((row) => row.n);
    expect(await numbers(root)).toEqual([0, 1, 2, 3, 5, 6, 4]);
    expect(await numbers(join(root, '**/*.json'))).toEqual([5, 6, 4]);
    expect(await numbers([join(root, 'b.jsonl'), join(root, 'a.*')])).toEqual([2, 3, 0, 1]);
    const table = await openTable(root);
    expect(table.columns).toEqual(['n', 'extra']);
    expect(table.locate(3)).toEqual({ file: join(root, 'b.jsonl'), row: 1 });
    expect(await table.row(6)).toEqual({ n: 4 });
    await expect(table.row(7)).rejects.toThrow('7 rows');
    await table.close();
    await expect(openTable(join(root, '*.csv'))).rejects.toThrow('no file matches');
    await expect(openTable(join(root, 'gone.parquet'))).rejects.toThrow('no such file');
  });

  it('names the broken line', async () => {
    const path = fresh('jsonl');
    writeFileSync(path, '{"a": 1}\n\n{"a": \n');
    await expect(openTable(path)).rejects.toThrow(`${path}: line 3 is not JSON`);
    writeFileSync(path, '{"a": 1}\n[2]\n');
    await expect(openTable(path)).rejects.toThrow('line 2 is not a JSON object');
  });

  it('indexes lines that cross the read buffer', async () => {
    const path = fresh('jsonl');
    const lengths = Array.from({ length: 2300 }, (_, i) => (i * 37) % 2000);
    writeFileSync(path, lengths.map((length, i) => JSON.stringify({ i, text: 'x'.repeat(length) })).join('\r\n'));
    const rows = await readAll(path);
    expect(rows.map((row) => [row.i, (row.text as string).length])).toEqual(lengths.map((length, i) => [i, length]));
  });

  it('reads shuffled rows of a table larger than its cache', async () => {
    const path = fresh();
    const rows = Array.from({ length: 400 }, (_, i) => ({
      i,
      big: BigInt(i) * 2n ** 54n + 1n,
      at: new Date(i * 1000),
    }));
    await writeParquet(path, rows, {
      rowGroupSize: 20,
      schema: { i: { kind: 'int64' }, big: { kind: 'int64' }, at: { kind: 'timestamp' } },
    });
    const table = await openTable(path, { cacheRows: 40 });
    for (let n = 0; n < 400; n++) {
      const i = (n * 147) % 400;
      const row = await table.row(i);
      expect([row.i, BigInt(row.big as bigint), row.at]).toEqual([i, rows[i]?.big, rows[i]?.at]);
    }
    await table.close();
  });
});

describe('beside pyarrow', () => {
  beforeEach(({ skip }) => skip(!hasPyarrow, `${python} cannot import pyarrow (set VERLET_PYTHON)`));

  const run = (script: string, ...args: string[]) =>
    execFileSync(python, ['-c', script, ...args], { timeout: 60_000, encoding: 'utf8' });
  const plainRow = chatRow.map(({ bytes, when, ...row }) => row);

  it('pyarrow reads what is written here, with the same types', async () => {
    const rows = fc.sample(plainRow, { numRuns: 60, seed: 11 });
    const path = fresh();
    const { bytes, when, ...plainSchema } = schema;
    await writeParquet(path, rows, { schema: plainSchema, rowGroupSize: 16 });
    const output = run(
      'import json,sys,pyarrow.parquet as p\nt=p.read_table(sys.argv[1])\nprint(json.dumps({"types":[str(f.type) for f in t.schema],"rows":t.to_pylist()}))',
      path,
    );
    const seen = JSON.parse(output) as { types: string[]; rows: Row[] };
    expect(seen.rows).toEqual(JSON.parse(JSON.stringify(rows)));
    expect(seen.types.slice(0, 3)).toEqual([
      'string',
      'list<element: struct<role: string, content: string>>',
      'struct<style: string, ground_truth: string>',
    ]);
  });

  it.each(['snappy', 'zstd', 'gzip', 'none'])('reads what pyarrow writes (%s)', async (compression) => {
    const rows = fc.sample(plainRow, { numRuns: 60, seed: 12 });
    const path = fresh();
    const json = fresh('json');
    writeFileSync(json, JSON.stringify(rows));
    run(
      `import json,sys,pyarrow as pa,pyarrow.parquet as p
rows=json.load(open(sys.argv[1]))
m=pa.list_(pa.struct([("role",pa.string()),("content",pa.large_string())]))
e=pa.struct([("index",pa.int64()),("score",pa.float64()),("flag",pa.bool_()),("tags",pa.list_(pa.string())),("grid",pa.list_(pa.list_(pa.int32())))])
r=pa.struct([("style",pa.string()),("ground_truth",pa.string())])
t=pa.Table.from_pylist(rows,schema=pa.schema([("data_source",pa.dictionary(pa.int32(),pa.string())),("prompt",m),("reward_model",r),("extra_info",e)]))
p.write_table(t,sys.argv[2],compression=sys.argv[3],row_group_size=25)`,
      json,
      path,
      compression,
    );
    expect(await readAll(path)).toEqual(JSON.parse(JSON.stringify(rows)));
  });

  it('reads a file that pandas wrote', async () => {
    const path = fresh();
    run(
      `import sys,pandas as pd
pd.DataFrame([{"prompt":[{"role":"user","content":"q"}],"reward_model":{"style":"rule","ground_truth":"4"},"extra_info":{"index":i,"split":"train"}} for i in range(3)]).to_parquet(sys.argv[1])`,
      path,
    );
    const rows = await readAll(path);
    expect(rows[2]).toEqual({
      prompt: [{ role: 'user', content: 'q' }],
      reward_model: { style: 'rule', ground_truth: '4' },
      extra_info: { index: 2, split: 'train' },
    });
  });
});
