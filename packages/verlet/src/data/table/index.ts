/** Rows from files and to files: Parquet, JSON and JSON lines behind one numbered table. */
export { DataError, type DataLocation } from './errors.js';
export { type WriteParquetOptions, writeParquet } from './parquet-write.js';
export { DATA_EXTENSIONS, expandPaths } from './paths.js';
export { describeType, inferSchema } from './schema.js';
export { type OpenTableOptions, openTable, Table } from './table.js';
export type { DataType, Row, TableSchema } from './types.js';
export { describeValue } from './values.js';
