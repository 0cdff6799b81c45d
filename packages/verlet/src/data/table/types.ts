export type Row = Record<string, unknown>;

/** The type of a column or of something inside one. */
export type DataType =
  | { kind: 'null' }
  | { kind: 'boolean' }
  /** A number where it is a safe integer, else a bigint. */
  | { kind: 'int64' }
  | { kind: 'double' }
  | { kind: 'string' }
  | { kind: 'binary' }
  | { kind: 'timestamp' }
  /** Any JSON value, stored as text: for values whose type differs between rows. */
  | { kind: 'json' }
  | { kind: 'list'; element: DataType }
  | { kind: 'struct'; fields: Record<string, DataType> };

export type TableSchema = Record<string, DataType>;

/** A file as numbered rows in blocks that are decoded as a whole. */
export interface RowSource {
  readonly path: string;
  readonly numRows: number;
  readonly schema: TableSchema;
  /** Number of rows of each block. */
  readonly blockRows: readonly number[];
  readBlock(block: number): Promise<Row[]>;
  close(): Promise<void>;
}
