import { z } from 'zod';
import { isTree } from './tree.js';

/** What a key accepts, in words: `integer >= 1 or null`, `one of error, left, right, middle`. */
export function typeText(schema: z.ZodType): string {
  return jsonTypeText(z.toJSONSchema(schema, { unrepresentable: 'any' }) as JsonType);
}

interface JsonType {
  /** Several for a nullable scalar. */
  type?: string | string[];
  enum?: unknown[];
  anyOf?: JsonType[];
  items?: JsonType;
  prefixItems?: JsonType[];
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
}

function jsonTypeText(json: JsonType): string {
  if (json.anyOf !== undefined) return json.anyOf.map(jsonTypeText).join(' or ');
  if (Array.isArray(json.type)) return json.type.map((type) => jsonTypeText({ ...json, type })).join(' or ');
  if (json.enum !== undefined) return `one of ${json.enum.join(', ')}`;
  switch (json.type) {
    case 'null':
      return 'null';
    case 'boolean':
      return 'true or false';
    case 'string':
      return 'text';
    case 'array':
      if (json.prefixItems !== undefined)
        return `list of ${json.prefixItems.length} (${json.prefixItems.map(jsonTypeText).join('; ')})`;
      return `list of ${json.items === undefined ? 'anything' : jsonTypeText(json.items)}`;
    case 'integer':
    case 'number':
      return json.type + bounds(json);
    case 'object':
      return 'keys and values';
    default:
      return 'anything';
  }
}

function bounds({ minimum, exclusiveMinimum, maximum }: JsonType): string {
  const parts: string[] = [];
  // z.int() carries the range of safe integers; nobody needs to read that.
  if (minimum !== undefined && minimum > Number.MIN_SAFE_INTEGER) parts.push(`>= ${minimum}`);
  if (exclusiveMinimum !== undefined) parts.push(`> ${exclusiveMinimum}`);
  if (maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER) parts.push(`<= ${maximum}`);
  return parts.length === 0 ? '' : ` ${parts.join(' and ')}`;
}

/** A value as a person would name it in "got ...". */
export function valueText(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'string') return `the text ${JSON.stringify(value)}`;
  if (typeof value === 'number') return `the number ${value}`;
  if (typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return `the list ${shorten(JSON.stringify(value))}`;
  if (isTree(value)) return `the keys ${shorten(Object.keys(value).join(', '))}`;
  return String(value);
}

const shorten = (text: string): string => (text.length > 60 ? `${text.slice(0, 57)}...` : text);
