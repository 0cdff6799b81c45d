import { createRequire } from 'node:module';
import type { Ajv as AjvInstance, ValidateFunction } from 'ajv';
import type { RewardInput } from '../types.js';

// ajv is CommonJS; its class is the module itself.
const { Ajv } = createRequire(import.meta.url)('ajv') as { Ajv: new (options: object) => AjvInstance };

/** Rewards for form alone. Each gives 1 or 0. */

export interface TagFormatOptions {
  /** Tags that must follow each other, each once, with only white space between: `['think', 'answer']`. */
  tags?: readonly string[];
}

const escapePattern = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

export function tagFormat(input: RewardInput, options: TagFormatOptions = {}): number {
  const tags = options.tags ?? ['think', 'answer'];
  const text = input.solution_str.trim();
  const once = tags.every((tag) => text.split(`<${tag}>`).length === 2 && text.split(`</${tag}>`).length === 2);
  const pattern = tags.map((tag) => `<${escapePattern(tag)}>[\\s\\S]*?</${escapePattern(tag)}>`).join('\\s*');
  return once && new RegExp(`^${pattern}$`).test(text) ? 1 : 0;
}

export interface RegexFormatOptions {
  pattern?: string;
  flags?: string;
}

export function regexFormat(input: RewardInput, options: RegexFormatOptions): number {
  if (!options.pattern) throw new TypeError('format/regex: give a `pattern` in reward_kwargs');
  return new RegExp(options.pattern, options.flags ?? 's').test(input.solution_str) ? 1 : 0;
}

export interface JsonFormatOptions {
  /** JSON Schema; absent: any JSON value is fine. A row's own `extra_info.json_schema` goes first. */
  schema?: object;
  /** Take the JSON out of a ```json fence when there is one. */
  allow_fence?: boolean;
}

const validators = new WeakMap<object, ValidateFunction>();
const ajv = new Ajv({ strict: false, logger: false });

/** The response (or its fenced part) is JSON and valid under the schema. */
export function jsonFormat(input: RewardInput, options: JsonFormatOptions = {}): number {
  const fenced =
    options.allow_fence === false ? undefined : /```(?:json)?\s*\n([\s\S]*?)```/.exec(input.solution_str)?.[1];
  let value: unknown;
  try {
    value = JSON.parse(fenced ?? input.solution_str);
  } catch {
    return 0;
  }
  const schema = (input.extra_info.json_schema as object | undefined) ?? options.schema;
  if (!schema) return 1;
  let validate = validators.get(schema);
  if (!validate) {
    validate = ajv.compile(schema);
    validators.set(schema, validate);
  }
  return validate(value) ? 1 : 0;
}
