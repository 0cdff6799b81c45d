import { DataError } from './errors.js';
import type { DataType, Row, TableSchema } from './types.js';

export interface InferOptions {
  /** What to do with a value whose type differs between rows: refuse it, or store that value as JSON text. */
  mixed?: 'error' | 'json';
  file?: string;
}

/** The narrowest schema that holds all rows. Columns keep the order in which they first appear. */
export function inferSchema(rows: readonly Row[], options: InferOptions = {}): TableSchema {
  const inference = new Inference(options);
  for (const row of rows) inference.addRow(row);
  return Object.fromEntries(
    Object.entries(inference.columns).map(([column, type]) => [column, withoutEmptyStructs(type)]),
  );
}

/** Widens types in place, value by value: rows are many, their shapes few. */
class Inference {
  readonly columns: Record<string, DataType> = {};
  private row = 0;
  private readonly path: string[] = [];

  constructor(private readonly options: InferOptions) {}

  addRow(row: Row): void {
    this.addFields(this.columns, row);
    this.row++;
  }

  private addFields(fields: Record<string, DataType>, values: object): void {
    for (const name of Object.keys(values)) {
      const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
      this.path.push(name);
      // JavaScript takes an assignment to this name for a change of the object's kind; the value would be lost.
      if (name === '__proto__') throw new DataError('a field cannot have this name', this.location());
      const type = this.widen(known ?? NULL, (values as Row)[name]);
      this.path.pop();
      if (type !== known) fields[name] = type;
    }
  }

  private widen(known: DataType, value: unknown): DataType {
    const kind = this.kindOf(value);
    if (kind === 'null' || known.kind === 'json') return known;
    if (kind === 'list') {
      if (known.kind !== 'list' && known.kind !== 'null') return this.conflict(known, kind);
      const list = known.kind === 'list' ? known : { kind, element: NULL };
      this.path.push('[]');
      for (const item of value as Iterable<unknown>) list.element = this.widen(list.element, item);
      this.path.pop();
      return list;
    }
    if (kind === 'struct') {
      if (known.kind !== 'struct' && known.kind !== 'null') return this.conflict(known, kind);
      const struct = known.kind === 'struct' ? known : { kind, fields: {} };
      this.addFields(struct.fields, value as object);
      return struct;
    }
    if (known.kind === kind) return known;
    if (known.kind === 'null') return { kind } as DataType;
    const isNumeric = (name: string) => name === 'int64' || name === 'double';
    if (isNumeric(known.kind) && isNumeric(kind)) return { kind: 'double' };
    return this.conflict(known, kind);
  }

  private kindOf(value: unknown): DataType['kind'] {
    switch (typeof value) {
      case 'undefined':
        return 'null';
      case 'string':
      case 'boolean':
        return typeof value as 'string' | 'boolean';
      case 'bigint':
        return 'int64';
      case 'number':
        return Number.isSafeInteger(value) && !Object.is(value, -0) ? 'int64' : 'double';
      case 'object':
        if (value === null) return 'null';
        if (Array.isArray(value)) return 'list';
        if (value instanceof Uint8Array) return 'binary';
        if (value instanceof Date) return 'timestamp';
        return ArrayBuffer.isView(value) ? 'list' : 'struct';
      default:
        throw new DataError(`a ${typeof value} cannot be stored`, this.location());
    }
  }

  private conflict(known: DataType, kind: string): DataType {
    if (this.options.mixed === 'json') return { kind: 'json' };
    throw new DataError(
      `holds ${kind}, earlier rows hold ${describeType(known)}; make them alike, or write with mixed: 'json'`,
      this.location(),
    );
  }

  private location() {
    return { file: this.options.file, row: this.row, column: this.path.join('.').replaceAll('.[]', '[]') };
  }
}

const NULL: DataType = { kind: 'null' };

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
