import type { SchemaElement } from 'hyparquet';
import type { DataType, TableSchema } from './types.js';

/** Our schema as Parquet's flat list. Everything is optional, as in files that pyarrow writes. */
export function toParquetSchema(schema: TableSchema): SchemaElement[] {
  const columns = Object.entries(schema);
  return [
    { name: 'schema', num_children: columns.length },
    ...columns.flatMap(([name, type]) => elementsOf(name, type)),
  ];
}

function elementsOf(name: string, type: DataType): SchemaElement[] {
  const optional = { name, repetition_type: 'OPTIONAL' as const };
  switch (type.kind) {
    case 'boolean':
      return [{ ...optional, type: 'BOOLEAN' }];
    case 'int64':
      return [{ ...optional, type: 'INT64' }];
    case 'double':
      return [{ ...optional, type: 'DOUBLE' }];
    case 'binary':
      return [{ ...optional, type: 'BYTE_ARRAY' }];
    case 'timestamp':
      return [{ ...optional, type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' }];
    case 'json':
      return [{ ...optional, type: 'BYTE_ARRAY', converted_type: 'JSON' }];
    case 'string':
    case 'null':
      return [{ ...optional, type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } }];
    case 'list':
      return [
        { ...optional, converted_type: 'LIST', logical_type: { type: 'LIST' }, num_children: 1 },
        { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
        ...elementsOf('element', type.element),
      ];
    case 'struct': {
      const fields = Object.entries(type.fields);
      return [
        { ...optional, num_children: fields.length },
        ...fields.flatMap(([field, fieldType]) => elementsOf(field, fieldType)),
      ];
    }
  }
}

/**
 * Two fields whose paths are the same once joined by dots (`a` > `b.c` and `a.b` > `c`), which the Parquet library would
 * mix up; null when there are none.
 */
export function ambiguousPath(elements: SchemaElement[]): string | null {
  const seen = new Set<string>();
  let at = 1;
  const visit = (count: number, prefix: string): string | null => {
    for (let i = 0; i < count; i++) {
      const { name, num_children: children = 0 } = elements[at++] as SchemaElement;
      const path = `${prefix}${name}`;
      if (seen.has(path)) return path;
      seen.add(path);
      const inner = visit(children, `${path}.`);
      if (inner !== null) return inner;
    }
    return null;
  };
  return visit(elements[0]?.num_children ?? 0, '');
}

interface SchemaNode {
  element: SchemaElement;
  children: SchemaNode[];
}

/** Parquet's flat list as our schema, for files of any writer. */
export function fromParquetSchema(elements: SchemaElement[]): TableSchema {
  let at = 0;
  const read = (): SchemaNode => {
    const element = elements[at++] as SchemaElement;
    const children = Array.from({ length: element.num_children ?? 0 }, read);
    return { element, children };
  };
  return Object.fromEntries(read().children.map((child) => [child.element.name, typeOfNode(child)]));
}

function typeOfNode({ element, children }: SchemaNode): DataType {
  const single = typeOfSingle({ element, children });
  // A repeated field outside a LIST group is a list by itself (old writers).
  return element.repetition_type === 'REPEATED' ? { kind: 'list', element: single } : single;
}

function typeOfSingle({ element, children }: SchemaNode): DataType {
  const { type, converted_type: converted, logical_type: logical } = element;
  if (children.length > 0) {
    if (converted === 'LIST' || logical?.type === 'LIST') {
      const repeated = children[0] as SchemaNode;
      const isWrapper = repeated.children.length === 1;
      return {
        kind: 'list',
        element: isWrapper ? typeOfNode(repeated.children[0] as SchemaNode) : typeOfSingle(repeated),
      };
    }
    // Maps arrive as plain objects.
    if (converted === 'MAP' || converted === 'MAP_KEY_VALUE' || logical?.type === 'MAP') return { kind: 'json' };
    return {
      kind: 'struct',
      fields: Object.fromEntries(children.map((child) => [child.element.name, typeOfNode(child)])),
    };
  }
  if (converted === 'DECIMAL' || logical?.type === 'DECIMAL') return { kind: 'double' };
  if (converted === 'JSON' || logical?.type === 'JSON') return { kind: 'json' };
  if (converted === 'UTF8' || converted === 'ENUM' || logical?.type === 'STRING' || logical?.type === 'UUID') {
    return { kind: 'string' };
  }
  if (
    converted?.startsWith('TIMESTAMP') ||
    converted === 'DATE' ||
    logical?.type === 'TIMESTAMP' ||
    logical?.type === 'DATE' ||
    type === 'INT96'
  ) {
    return { kind: 'timestamp' };
  }
  if (type === 'BOOLEAN') return { kind: 'boolean' };
  if (type === 'INT32' || type === 'INT64') return { kind: 'int64' };
  if (type === 'FLOAT' || type === 'DOUBLE' || logical?.type === 'FLOAT16') return { kind: 'double' };
  return { kind: 'binary' };
}
