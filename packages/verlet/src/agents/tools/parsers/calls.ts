import { randomUUID } from 'node:crypto';
import type { ToolSchema } from '../../types.js';
import type { MalformedToolCall, ParsedToolCall, ParsedTurn } from './types.js';

export function toolCallId(): string {
  return `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
}

/** Collects the calls of one turn while a parser walks through its text. */
export class TurnCollector {
  readonly calls: ParsedToolCall[] = [];
  readonly malformed: MalformedToolCall[] = [];

  add(name: string, args: Record<string, unknown>, id = toolCallId()): void {
    this.calls.push({ id, name, arguments: args });
  }

  refuse(raw: string, reason: string): void {
    this.malformed.push({ raw, reason });
  }

  /** A call whose arguments are JSON text. */
  addJson(name: string, json: string, raw: string, id?: string): void {
    const parsed = parseJsonObject(json);
    if (typeof parsed === 'string') this.refuse(raw, `the arguments of ${name} ${parsed}`);
    else this.add(name, parsed, id);
  }

  turn(content: string): ParsedTurn {
    return { content, calls: this.calls, malformed: this.malformed };
  }
}

/** The object, or why the text is not one. */
export function parseJsonObject(text: string): Record<string, unknown> | string {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : 'must be a JSON object';
  } catch (error) {
    return `are not valid JSON (${(error as Error).message})`;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The declared JSON Schema type of a parameter, `undefined` when the tool does not say. */
export function parameterType(tools: readonly ToolSchema[], tool: string, parameter: string): string | undefined {
  const parameters = tools.find((candidate) => candidate.function.name === tool)?.function.parameters;
  const properties = isRecord(parameters?.properties) ? parameters.properties : undefined;
  const property = properties?.[parameter];
  const type = isRecord(property) ? property.type : undefined;
  return typeof type === 'string' ? type : undefined;
}

/** The value a text stands for under a declared type. Text that does not fit its type stays text; nothing is evaluated. */
export function valueOfType(text: string, type: string | undefined): unknown {
  const trimmed = text.trim();
  switch (type) {
    case 'string':
      return text;
    case 'integer':
      return /^[+-]?\d+$/.test(trimmed) ? Number(trimmed) : text;
    case 'number':
      return trimmed !== '' && Number.isFinite(Number(trimmed)) ? Number(trimmed) : text;
    case 'boolean':
      return /^true$/i.test(trimmed) ? true : /^false$/i.test(trimmed) ? false : text;
    default:
      return valueOfJson(text);
  }
}

/** The JSON value a text spells, else the text itself. */
export function valueOfJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
