import { z } from 'zod';

/**
 * How a key is declared. A schema node carries its documentation and its default in its metadata; defaults are kept raw
 * (they may hold `${...}`), because they are interpolated only after files and the command line were merged over them.
 */
export interface FieldMeta {
  description: string;
  default?: unknown;
  /** Set when the key is accepted but changes nothing here: the reason, as the end of "no effect: ...". */
  inert?: string;
  /** Set when the default is not verl's: what verl has and why it differs. */
  differs?: string;
}

/** verl's (OmegaConf's) mark of a value that has no default and must be given. */
export const MISSING = '???';

type Default<S extends z.ZodType> = z.infer<S> | `\${${string}` | typeof MISSING;

export function field<S extends z.ZodType>(
  schema: S,
  defaultValue: Default<S>,
  description: string,
  options: { inert?: string; differs?: string } = {},
): S {
  return schema.meta({ description, default: defaultValue, ...options });
}

/** A key of verl that is accepted so that command lines carry over, and has no effect here. */
export function inert<S extends z.ZodType>(
  schema: S,
  defaultValue: Default<S>,
  description: string,
  reason: string,
): S {
  return field(schema, defaultValue, description, { inert: reason });
}

export function group<Shape extends z.ZodRawShape>(description: string, shape: Shape) {
  return z.strictObject(shape).meta({ description });
}

export function metaOf(schema: z.ZodType): FieldMeta {
  const meta = schema.meta() as Partial<FieldMeta> | undefined;
  return { ...meta, description: meta?.description ?? '' };
}

export const text = z.string();
export const optionalText = z.string().nullable();
export const flag = z.boolean();
export const number = z.number();
export const optionalNumber = z.number().nullable();
export const integer = z.int();
export const optionalInteger = z.int().nullable();
export const positiveInteger = z.int().min(1);
export const optionalPositiveInteger = z.int().min(1).nullable();
export const nonNegative = z.number().min(0);
export const fraction = z.number().min(0).max(1);
/** Keys below it are free: whatever the reader of the value understands. */
export const freeForm = z.record(z.string(), z.unknown());
export const textOrList = z.union([z.string(), z.array(z.string())]);
export const optionalTextOrList = z.union([z.string(), z.array(z.string())]).nullable();
