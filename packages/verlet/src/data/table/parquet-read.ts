import { type AsyncBuffer, type FileMetaData, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { DataError } from './errors.js';
import { FileReader } from './file-reader.js';
import { ambiguousPath, fromParquetSchema } from './parquet-schema.js';
import type { Row, RowSource, TableSchema } from './types.js';
import { readConverter } from './values.js';

// The library's own decoder drops a byte order mark at the start of every string.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const stringFromBytes = (bytes: Uint8Array | undefined) => bytes && decoder.decode(bytes);
const parsers = {
  stringFromBytes,
  jsonFromBytes: (bytes: Uint8Array | undefined) => bytes && JSON.parse(stringFromBytes(bytes) as string),
};

/** A Parquet file; a block is a row group. Only the footer is read on opening. */
export class ParquetSource implements RowSource {
  readonly schema: TableSchema;
  readonly numRows: number;
  readonly blockRows: readonly number[];
  private readonly blockStarts: number[] = [];
  private readonly converters: [string, (value: unknown) => unknown][];

  private constructor(
    readonly path: string,
    private readonly reader: FileReader,
    private readonly buffer: AsyncBuffer,
    private readonly metadata: FileMetaData,
  ) {
    this.schema = fromParquetSchema(metadata.schema);
    this.blockRows = metadata.row_groups.map(({ num_rows }) => Number(num_rows));
    let start = 0;
    for (const rows of this.blockRows) {
      this.blockStarts.push(start);
      start += rows;
    }
    this.numRows = start;
    this.converters = Object.entries(this.schema).map(([column, type]) => [column, readConverter(type)]);
  }

  static async open(path: string): Promise<ParquetSource> {
    const reader = await FileReader.open(path);
    try {
      const { size } = reader;
      if (size < 12) throw new Error(`${size} bytes are too few for a Parquet file`);
      const buffer = asyncBuffer(reader);
      const metadata = await parquetMetadataAsync(buffer);
      const column = ambiguousPath(metadata.schema);
      if (column !== null)
        throw new DataError('two fields have this path and cannot be told apart', { file: path, column });
      return new ParquetSource(path, reader, buffer, metadata);
    } catch (error) {
      await reader.close();
      if (error instanceof DataError) throw error;
      throw new DataError(
        `the Parquet footer cannot be read (${(error as Error).message}); the file is cut off, still being written, or not Parquet`,
        { file: path },
        { cause: error },
      );
    }
  }

  async readBlock(block: number): Promise<Row[]> {
    const rowStart = this.blockStarts[block] as number;
    const rowEnd = rowStart + (this.blockRows[block] as number);
    let rows: Row[];
    try {
      const { buffer: file, metadata } = this;
      rows = await parquetReadObjects({ file, metadata, rowStart, rowEnd, compressors, parsers, utf8: false });
    } catch (error) {
      throw new DataError(
        `row group ${block} (rows ${rowStart} to ${rowEnd - 1}) is damaged: ${(error as Error).message}`,
        {
          file: this.path,
        },
      );
    }
    for (const row of rows) {
      for (const [column, convert] of this.converters) row[column] = convert(row[column]);
    }
    return rows;
  }

  async close(): Promise<void> {
    await this.reader.close();
  }
}

function asyncBuffer(reader: FileReader): AsyncBuffer {
  return {
    byteLength: reader.size,
    slice: async (start: number, end = reader.size) => (await reader.read(start, end)).buffer,
  };
}
