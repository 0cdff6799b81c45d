import { DataError } from './errors.js';
import type { DataType } from './types.js';

/** Changes a value between how rows hold it and how the Parquet library wants it. Null: nothing to change. */
type Convert = (value: unknown) => unknown;

/**
 * After reading: integers as numbers where that is exact, absent values as null.
 * Containers are changed in place, they belong to the row.
 */
export function readConverter(type: DataType): Convert {
  switch (type.kind) {
    case 'int64':
      return (value) => {
        if (typeof value !== 'bigint') return value ?? null;
        const number = Number(value);
        return Number.isSafeInteger(number) ? number : value;
      };
    case 'list': {
      const convert = readConverter(type.element);
      return (value) => {
        if (value === null || value === undefined) return null;
        const list = Array.isArray(value) ? value : Array.from(value as ArrayLike<unknown>);
        for (let i = 0; i < list.length; i++) list[i] = convert(list[i]);
        return list;
      };
    }
    case 'struct': {
      const fields = Object.entries(type.fields).map(([name, field]) => [name, readConverter(field)] as const);
      return (value) => {
        if (value === null || value === undefined) return null;
        const struct = value as Record<string, unknown>;
        for (const [name, convert] of fields) struct[name] = convert(struct[name]);
        return struct;
      };
    }
    default:
      return (value) => value ?? null;
  }
}

/** Before writing: integers as bigint, and every value checked against the schema. */
export function writeConverter(type: DataType, path: string): Convert {
  const refuse = (value: unknown): never => {
    throw new DataError(`is to hold ${type.kind}, got ${describeValue(value)}`, { column: path });
  };
  const checked =
    (isFine: (value: unknown) => boolean): Convert =>
    (value) => {
      if (value === null || value === undefined) return null;
      return isFine(value) ? value : refuse(value);
    };
  switch (type.kind) {
    case 'null':
      return (value) => (value === null || value === undefined ? null : refuse(value));
    case 'boolean':
      return checked((value) => typeof value === 'boolean');
    case 'double':
      return (value) => (typeof value === 'bigint' ? Number(value) : checked((v) => typeof v === 'number')(value));
    case 'string':
      return checked((value) => typeof value === 'string');
    case 'binary':
      return checked((value) => value instanceof Uint8Array);
    case 'timestamp':
      return checked((value) => value instanceof Date);
    case 'json':
      return (value) => (value === undefined ? null : value);
    case 'int64':
      return (value) => {
        if (value === null || value === undefined) return null;
        if (typeof value === 'bigint' && BigInt.asIntN(64, value) === value) return value;
        return Number.isSafeInteger(value) ? BigInt(value as number) : refuse(value);
      };
    case 'list': {
      const convert = writeConverter(type.element, `${path}[]`);
      return (value) => {
        if (value === null || value === undefined) return null;
        if (!Array.isArray(value) && !(ArrayBuffer.isView(value) && !(value instanceof DataView))) return refuse(value);
        return Array.from(value as ArrayLike<unknown>, convert);
      };
    }
    case 'struct': {
      const fields = Object.entries(type.fields).map(
        ([name, field]) => [name, writeConverter(field, `${path}.${name}`)] as const,
      );
      return (value) => {
        if (value === null || value === undefined) return null;
        if (typeof value !== 'object' || Array.isArray(value)) return refuse(value);
        const source = value as Record<string, unknown>;
        for (const name of Object.keys(source)) {
          if (!Object.hasOwn(type.fields, name) && source[name] !== null && source[name] !== undefined) {
            throw new DataError(`has a field "${name}" that the schema lacks`, { column: path });
          }
        }
        const struct: Record<string, unknown> = {};
        for (const [name, convert] of fields) struct[name] = convert(source[name]);
        return struct;
      };
    }
  }
}

export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  const text = typeof value === 'bigint' ? `${value}` : (JSON.stringify(value) ?? String(value));
  const kind = Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
  return `${kind} ${text.length > 60 ? `${text.slice(0, 57)}...` : text}`;
}
