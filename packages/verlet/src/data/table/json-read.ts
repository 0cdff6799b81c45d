import { readFile, stat } from 'node:fs/promises';
import { DataError } from './errors.js';
import { FileReader } from './file-reader.js';
import { inferSchema } from './schema.js';
import type { Row, RowSource, TableSchema } from './types.js';

const LINES_PER_BLOCK = 1000;
/** A whole JSON document has to fit into one string. */
const LARGEST_DOCUMENT = 400 * 2 ** 20;

/** One JSON object per line, read in blocks of lines. */
export class JsonLinesSource implements RowSource {
  schema: TableSchema = {};
  readonly numRows: number;
  readonly blockRows: readonly number[];

  private constructor(
    readonly path: string,
    private readonly reader: FileReader,
    private readonly blocks: LineBlock[],
  ) {
    this.blockRows = blocks.map(({ rows }) => rows);
    this.numRows = this.blockRows.reduce((sum, rows) => sum + rows, 0);
  }

  static async open(path: string): Promise<JsonLinesSource> {
    const reader = await FileReader.open(path);
    try {
      const source = new JsonLinesSource(path, reader, await indexLines(reader));
      if (source.numRows > 0) source.schema = inferSchema(await source.readBlock(0), { mixed: 'json', file: path });
      return source;
    } catch (error) {
      await reader.close();
      throw error;
    }
  }

  async readBlock(block: number): Promise<Row[]> {
    const { start, end, firstLine } = this.blocks[block] as LineBlock;
    const bytes = await this.reader.read(start, end);
    const rows: Row[] = [];
    bytes
      .toString('utf8')
      .split('\n')
      .forEach((line, index) => {
        if (line.trim() === '') return;
        const lineNumber = firstLine + index + 1;
        let row: unknown;
        try {
          row = JSON.parse(line);
        } catch (error) {
          throw new DataError(`line ${lineNumber} is not JSON: ${(error as Error).message}`, { file: this.path });
        }
        rows.push(asRow(row, this.path, `line ${lineNumber}`));
      });
    return rows;
  }

  async close(): Promise<void> {
    await this.reader.close();
  }
}

interface LineBlock {
  start: number;
  end: number;
  firstLine: number;
  /** Lines that are not blank. */
  rows: number;
}

async function indexLines(reader: FileReader): Promise<LineBlock[]> {
  const blocks: LineBlock[] = [];
  let current: LineBlock = { start: 0, end: 0, firstLine: 0, rows: 0 };
  let position = 0;
  let line = 0;
  let isBlank = true;
  const endLine = (end: number) => {
    line++;
    if (!isBlank) current.rows++;
    isBlank = true;
    current.end = end;
    if (current.rows === LINES_PER_BLOCK) {
      blocks.push(current);
      current = { start: end, end, firstLine: line, rows: 0 };
    }
  };
  while (position < reader.size) {
    const chunk = await reader.read(position, Math.min(reader.size, position + (1 << 20)));
    const bytesRead = chunk.length;
    let at = 0;
    while (at < bytesRead) {
      const found = chunk.indexOf(10, at);
      const end = found < 0 ? bytesRead : found;
      for (let i = at; isBlank && i < end; i++) isBlank = (chunk[i] as number) <= 32;
      if (end === bytesRead) break;
      endLine(position + end + 1);
      at = end + 1;
    }
    position += bytesRead;
  }
  if (!isBlank) endLine(position);
  if (current.rows > 0) blocks.push(current);
  return blocks;
}

/** A JSON document: an array of objects, `{ "data": [...] }`, or one object. */
export async function openJson(path: string): Promise<RowSource> {
  const { size } = await stat(path);
  if (size > LARGEST_DOCUMENT) {
    const lines = await JsonLinesSource.open(path).catch(() => null);
    if (lines) return lines;
    throw new DataError(`${size} bytes are too many for one JSON document; write one object per line (.jsonl)`, {
      file: path,
    });
  }
  let document: unknown;
  try {
    document = JSON.parse((await readFile(path, 'utf8')).replace(/^\uFEFF/, ''));
  } catch (error) {
    // Many published .json files are really one object per line.
    const lines = await JsonLinesSource.open(path).catch(() => null);
    if (lines && lines.numRows > 1) return lines;
    throw new DataError(`is not valid JSON: ${(error as Error).message}`, { file: path });
  }
  const data = (document as { data?: unknown } | null)?.data;
  const list = Array.isArray(document) ? document : Array.isArray(data) ? data : [document];
  const rows = list.map((row, index) => asRow(row, path, `element ${index}`));
  return {
    path,
    numRows: rows.length,
    schema: inferSchema(rows.slice(0, LINES_PER_BLOCK), { mixed: 'json', file: path }),
    blockRows: rows.length > 0 ? [rows.length] : [],
    readBlock: async () => rows,
    close: async () => {},
  };
}

function asRow(value: unknown, file: string, where: string): Row {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new DataError(`${where} is not a JSON object`, { file });
  }
  return value as Row;
}
