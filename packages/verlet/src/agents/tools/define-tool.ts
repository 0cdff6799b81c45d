import { z } from 'zod';
import type { ToolSchema } from '../types.js';
import type { CheckedArguments, Tool, ToolContext, ToolOutput } from './types.js';

/** The part of Standard Schema (https://standardschema.dev) that is used; Zod, Valibot and ArkType implement it. */
export interface StandardSchema<Output> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly jsonSchema?: { readonly input: (options: { target: string }) => Record<string, unknown> };
  };
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        message: string;
        path?: readonly (PropertyKey | { key: PropertyKey })[] | undefined;
      }[];
    };

export interface ToolDefinition<Input, State> {
  name: string;
  description: string;
  input: StandardSchema<Input>;
  /** JSON Schema of the input, for schema libraries that cannot write one. */
  parameters?: Record<string, unknown>;
  timeoutSeconds?: number;
  create?: (context: ToolContext) => Promise<State> | State;
  /** A string, a `ToolOutput`, or any JSON value. */
  execute: (input: Input, context: ToolContext & { state: State }) => Promise<unknown> | unknown;
  reward?: (context: ToolContext & { state: State }) => Promise<number> | number;
  release?: (context: ToolContext & { state: State }) => Promise<void> | void;
}

/**
 * A tool from a function and a schema.
 *
 * @example
 * const add = defineTool({
 *   name: 'add',
 *   description: 'Adds two numbers',
 *   input: z.object({ a: z.number(), b: z.number() }),
 *   execute: ({ a, b }) => a + b,
 * });
 */
export function defineTool<Input, State = undefined>(definition: ToolDefinition<Input, State>): Tool {
  const { name, description, input, create, execute, reward, release, timeoutSeconds } = definition;
  const schema: ToolSchema = {
    type: 'function',
    function: { name, description, parameters: definition.parameters ?? jsonSchemaOf(name, input) },
  };
  return {
    name,
    schema,
    ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
    check: (value) => checkWith(input, value),
    execute: (value, context) => execute(value as Input, context as ToolContext & { state: State }),
    ...(create ? { create } : {}),
    ...(reward ? { reward: (context: ToolContext) => reward(context as ToolContext & { state: State }) } : {}),
    ...(release ? { release: (context: ToolContext) => release(context as ToolContext & { state: State }) } : {}),
  };
}

async function checkWith(schema: StandardSchema<unknown>, value: unknown): Promise<CheckedArguments> {
  const result = await schema['~standard'].validate(value);
  if (!result.issues) return { ok: true, value: result.value };
  const issues = result.issues.map(({ message, path }) => {
    const where = (path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    return where ? `${where}: ${message}` : message;
  });
  return { ok: false, issues };
}

function jsonSchemaOf(name: string, schema: StandardSchema<unknown>): Record<string, unknown> {
  const converted =
    schema['~standard'].vendor === 'zod'
      ? (z.toJSONSchema(schema as unknown as z.ZodType, { io: 'input' }) as Record<string, unknown>)
      : schema['~standard'].jsonSchema?.input({ target: 'draft-2020-12' });
  if (!converted) {
    throw new Error(
      `tool ${name}: ${schema['~standard'].vendor} schemas cannot describe themselves as JSON Schema here; ` +
        'pass the description of the input as `parameters`',
    );
  }
  const { $schema: _, ...parameters } = converted;
  return parameters;
}

/** What the model is shown of a tool's return value. */
export function toolOutput(value: unknown): ToolOutput {
  if (typeof value === 'string') return { text: value };
  if (value === undefined || value === null) return { text: '' };
  if (typeof value === 'object' && 'text' in value && typeof value.text === 'string') {
    const { text, reward, metrics } = value as ToolOutput;
    return { text, ...(typeof reward === 'number' ? { reward } : {}), ...(metrics ? { metrics } : {}) };
  }
  return { text: typeof value === 'object' ? JSON.stringify(value) : String(value) };
}
