import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { DataError } from './errors.js';
import { ambiguousPath, toParquetSchema } from './parquet-schema.js';
import { inferSchema } from './schema.js';
import type { Row, TableSchema } from './types.js';
import { writeConverter } from './values.js';

export interface WriteParquetOptions {
  /** Inferred when absent: from all rows of an array, else from the first `inferRows` of a stream. */
  schema?: TableSchema;
  inferRows?: number;
  /** Rows per row group: what a shuffled reader decodes at once. */
  rowGroupSize?: number;
  codec?: 'SNAPPY' | 'UNCOMPRESSED';
  mixed?: 'error' | 'json';
}

/**
 * Writes rows as Parquet with real nested types. The file appears under its name only when it is whole; memory is bounded
 * by a row group.
 */
export async function writeParquet(
  path: string,
  rows: Iterable<Row> | AsyncIterable<Row>,
  options: WriteParquetOptions = {},
): Promise<{ numRows: number; schema: TableSchema }> {
  const { rowGroupSize = 5000, inferRows = 20_000, mixed, codec = 'SNAPPY' } = options;
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.tmp`;
  const file = new FileByteWriter(temporary);
  try {
    const state = { writer: null as ParquetWriter | null, schema: options.schema, numRows: 0 };
    const flush = (batch: Row[]) => {
      state.schema ??= inferSchema(batch, { mixed, file: path });
      state.writer ??= new ParquetWriter({ writer: file, schema: checkedSchema(state.schema, path), codec });
      for (let start = 0; start < batch.length; start += rowGroupSize) {
        const group = batch.slice(start, start + rowGroupSize);
        const columnData = toColumns(group, state.schema, path, state.numRows);
        state.writer.write({ columnData, rowGroupSize: group.length });
        state.numRows += group.length;
      }
    };
    if (Array.isArray(rows)) flush(rows);
    else {
      let batch: Row[] = [];
      for await (const row of rows) {
        batch.push(row);
        if (batch.length >= (state.schema ? rowGroupSize : inferRows)) {
          flush(batch);
          batch = [];
        }
      }
      if (batch.length > 0 || !state.writer) flush(batch);
    }
    if (Object.keys(state.schema as TableSchema).length === 0) {
      throw new DataError('there are no rows and no schema is given, so the columns are unknown', { file: path });
    }
    state.writer?.finish();
    file.close();
    await rename(temporary, path);
    return { numRows: state.numRows, schema: state.schema as TableSchema };
  } catch (error) {
    file.close();
    await rm(temporary, { force: true });
    throw error;
  }
}

function checkedSchema(schema: TableSchema, file: string) {
  const elements = toParquetSchema(schema);
  const column = ambiguousPath(elements);
  if (column !== null)
    throw new DataError('two fields have this path; rename the one with a dot in it', { file, column });
  return elements;
}

function toColumns(
  rows: Row[],
  schema: TableSchema,
  file: string,
  firstRow: number,
): { name: string; data: unknown[] }[] {
  for (const [index, row] of rows.entries()) {
    for (const column of Object.keys(row)) {
      if (!Object.hasOwn(schema, column) && row[column] !== null && row[column] !== undefined) {
        throw new DataError('is not in the schema, which earlier rows fixed; give a schema', {
          file,
          row: firstRow + index,
          column,
        });
      }
    }
  }
  return Object.entries(schema).map(([name, type]) => {
    const convert = writeConverter(type, name);
    const data = rows.map((row, index) => {
      try {
        return convert(row[name]);
      } catch (error) {
        if (!(error instanceof DataError)) throw error;
        throw new DataError(error.problem, { ...error.location, file, row: firstRow + index });
      }
    });
    return { name, data };
  });
}

/** The library's writer with a file behind it. */
class FileByteWriter extends ByteWriter {
  private descriptor: number | null;

  constructor(path: string) {
    super(1 << 20);
    this.descriptor = openSync(path, 'w');
  }

  flush(): void {
    const bytes = new Uint8Array(this.buffer, 0, this.index);
    for (let written = 0; written < bytes.length; ) {
      written += writeSync(this.descriptor as number, bytes, written, bytes.length - written);
    }
    this.index = 0;
  }

  override finish(): void {
    this.flush();
    fsyncSync(this.descriptor as number);
  }

  close(): void {
    if (this.descriptor !== null) closeSync(this.descriptor);
    this.descriptor = null;
  }
}
