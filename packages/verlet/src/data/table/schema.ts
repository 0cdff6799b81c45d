import { DataError } from './errors.js';
import type { DataType, Row, TableSchema } from './types.js';

export interface InferOptions {
  /** What to do with a value whose type differs between rows: refuse it, or store that value as JSON text. */
  mixed?: 'error' | 'json';
  file?: string;
}

/** The narrowest schema that holds all rows. Columns keep the order in which they first appear. */
export function inferSchema(rows: readonly Row[], options: InferOptions = {}): TableSchema {
  const fields: Record<string, DataType> = {};
  rows.forEach((row, index) => {
    for (const [column, value] of Object.entries(row)) {
      const type = typeOf(value, column, index, options);
      const known = fields[column];
      fields[column] = known ? merge(known, type, column, index, options) : type;
    }
  });
  for (const column of Object.keys(fields)) fields[column] = withoutEmptyStructs(fields[column] as DataType);
  return fields;
}

function typeOf(value: unknown, path: string, row: number, options: InferOptions): DataType {
  switch (typeof value) {
    case 'undefined':
      return { kind: 'null' };
    case 'boolean':
      return { kind: 'boolean' };
    case 'bigint':
      return { kind: 'int64' };
    case 'number':
      return { kind: Number.isSafeInteger(value) && !Object.is(value, -0) ? 'int64' : 'double' };
    case 'string':
      return { kind: 'string' };
    case 'object':
      break;
    default:
      throw new DataError(`a ${typeof value} cannot be stored`, { file: options.file, row, column: path });
  }
  if (value === null) return { kind: 'null' };
  if (value instanceof Date) return { kind: 'timestamp' };
  if (value instanceof Uint8Array) return { kind: 'binary' };
  if (ArrayBuffer.isView(value) || Array.isArray(value)) {
    let element: DataType = { kind: 'null' };
    for (const item of value as unknown as Iterable<unknown>) {
      element = merge(element, typeOf(item, `${path}[]`, row, options), `${path}[]`, row, options);
    }
    return { kind: 'list', element };
  }
  const fields: Record<string, DataType> = {};
  for (const [name, item] of Object.entries(value as object))
    fields[name] = typeOf(item, `${path}.${name}`, row, options);
  return { kind: 'struct', fields };
}

function merge(a: DataType, b: DataType, path: string, row: number, options: InferOptions): DataType {
  if (a.kind === 'null') return b;
  if (b.kind === 'null' || a.kind === 'json') return a;
  if (a.kind === 'list' && b.kind === 'list') {
    return { kind: 'list', element: merge(a.element, b.element, `${path}[]`, row, options) };
  }
  if (a.kind === 'struct' && b.kind === 'struct') {
    const fields = a.fields;
    for (const [name, type] of Object.entries(b.fields)) {
      const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
      fields[name] = known ? merge(known, type, `${path}.${name}`, row, options) : type;
    }
    return a;
  }
  if (a.kind === b.kind) return a;
  const isNumeric = (type: DataType) => type.kind === 'int64' || type.kind === 'double';
  if (isNumeric(a) && isNumeric(b)) return { kind: 'double' };
  if (options.mixed === 'json') return { kind: 'json' };
  throw new DataError(
    `holds ${describeType(b)}, earlier rows hold ${describeType(a)}; make them alike, or write with mixed: 'json'`,
    { file: options.file, row, column: path },
  );
}

/** Parquet has no struct without fields; an object that is always empty is kept as JSON. */
function withoutEmptyStructs(type: DataType): DataType {
  if (type.kind === 'list') return { kind: 'list', element: withoutEmptyStructs(type.element) };
  if (type.kind !== 'struct') return type;
  const entries = Object.entries(type.fields);
  if (entries.length === 0) return { kind: 'json' };
  return {
    kind: 'struct',
    fields: Object.fromEntries(entries.map(([name, field]) => [name, withoutEmptyStructs(field)])),
  };
}

/** `list<struct<role: string, content: string>>`. */
export function describeType(type: DataType): string {
  if (type.kind === 'list') return `list<${describeType(type.element)}>`;
  if (type.kind !== 'struct') return type.kind;
  const fields = Object.entries(type.fields).map(([name, field]) => `${name}: ${describeType(field)}`);
  return `struct<${fields.join(', ')}>`;
}
