/**
 * JavaScript's side of the door. An operator's arguments are written into one shared buffer of doubles in the order of its
 * schema; a single native call reads them. `native/door.cc` reads what is written here.
 */
import { type DType, dtypeCode } from './dtype.js';
import { TorchError } from './errors.js';
import { native, type OperatorInfo } from './native.js';
import { Tensor } from './tensor.js';

let buffer = native.argumentBuffer(1 << 14);
let cursor = 1;
native.setErrorClass(TorchError as new (message: string, kind: string) => Error);

const interned = new Map<string, number>();

function reserve(count: number): void {
  if (!(count >= 0)) throw new TorchError('an operator wants an array here');
  if (cursor + count <= buffer.length) return;
  const larger = native.argumentBuffer(2 * (cursor + count));
  larger.set(buffer);
  buffer = larger;
}

/** The shared buffer; it moves when it grows, so never hold on to it. */
export function sharedBuffer(minimumLength = 0): Float64Array {
  if (minimumLength > buffer.length) {
    cursor = 1;
    reserve(minimumLength);
  }
  return buffer;
}

export function begin(): void {
  cursor = 1;
}

export function putTensor(tensor: Tensor | null | undefined): void {
  buffer[cursor++] = tensor ? tensor.handle : -1;
}

export function putNumber(value: number): void {
  buffer[cursor++] = value;
}

export function putFlag(value: boolean): void {
  buffer[cursor++] = value ? 1 : 0;
}

/** An integral JavaScript number becomes an integer scalar: `add(int64, 1)` must stay int64. */
export function putScalar(value: number | boolean): void {
  if (typeof value === 'boolean') {
    buffer[cursor++] = 2;
    buffer[cursor++] = value ? 1 : 0;
  } else {
    buffer[cursor++] = Number.isSafeInteger(value) && !Object.is(value, -0) ? 0 : 1;
    buffer[cursor++] = value;
  }
}

export function putString(text: string): void {
  let id = interned.get(text);
  if (id === undefined) {
    id = native.internString(text);
    interned.set(text, id);
  }
  buffer[cursor++] = id;
}

export function putDType(dtype: DType): void {
  buffer[cursor++] = dtypeCode(dtype);
}

export function putNumbers(values: ArrayLike<number>): void {
  reserve(values.length + 64);
  buffer[cursor++] = values.length;
  for (let k = 0; k < values.length; k++) buffer[cursor++] = values[k]!;
}

export function putFlags(values: readonly boolean[]): void {
  reserve(values.length + 64);
  buffer[cursor++] = values.length;
  for (const value of values) buffer[cursor++] = value ? 1 : 0;
}

export function putTensors(tensors: readonly (Tensor | null | undefined)[]): void {
  reserve(tensors.length + 64);
  buffer[cursor++] = tensors.length;
  for (const tensor of tensors) buffer[cursor++] = tensor ? tensor.handle : -1;
}

/** Calls an operator whose arguments stand in the buffer; `provided` has bit k set for each argument k that was written. */
export function callTensor(operator: number, provided: number): Tensor {
  buffer[0] = provided;
  return new Tensor(native.call(operator));
}

export function callVoid(operator: number, provided: number): void {
  buffer[0] = provided;
  native.call(operator);
}

function takeTensor(handle: number): Tensor | null {
  return handle === -1 ? null : new Tensor(handle);
}

/** Results that are not one plain tensor, by their kinds. */
export function callMany(operator: number, provided: number, kinds: string): unknown[] {
  buffer[0] = provided;
  native.call(operator);
  const results: unknown[] = [];
  let at = 0;
  for (const kind of kinds) {
    if (kind === 'T') results.push(takeTensor(buffer[at++]!));
    else if (kind === 'L') {
      const count = buffer[at++]!;
      const list: (Tensor | null)[] = [];
      for (let k = 0; k < count; k++) list.push(takeTensor(buffer[at++]!));
      results.push(list);
    } else if (kind === 'b') results.push(buffer[at++] === 1);
    else if (kind !== '-') results.push(buffer[at++]);
  }
  return results;
}

export function resolve(name: string): number {
  return native.resolve(name).index;
}

export type OperatorArgument =
  | Tensor
  | number
  | boolean
  | string
  | null
  | undefined
  | readonly number[]
  | readonly boolean[]
  | readonly (Tensor | null)[];

const operators = new Map<string, (...args: OperatorArgument[]) => unknown>();

/**
 * Any operator of libtorch by its full name. Arguments are positional as in the schema; `undefined` takes the default.
 *
 * @example
 * const erf = operator('aten::erf');
 * const y = erf(tensor([0, 1])) as Tensor;
 */
export function operator(name: string): (...args: OperatorArgument[]) => unknown {
  const known = operators.get(name);
  if (known) return known;
  const info = native.resolve(name);
  const kinds = info.returns.map((kind, k) => (info.aliases[k]! >= 0 ? '-' : kind)).join('');
  const invoke = (...args: OperatorArgument[]): unknown => {
    if (args.length > info.arguments.length)
      throw new TorchError(`${name}: got ${args.length} arguments, the schema is ${info.schema}`);
    begin();
    let provided = 0;
    for (let k = 0; k < args.length; k++) {
      if (args[k] === undefined) continue;
      provided += 2 ** k;
      putArgument(name, info.arguments[k]!, args[k]);
    }
    if (info.singleTensor) return callTensor(info.index, provided);
    const results = callMany(info.index, provided, kinds);
    let next = 0;
    const values = info.aliases.map((alias) => (alias >= 0 ? args[alias] : results[next++]));
    return values.length === 1 ? values[0] : values.length === 0 ? undefined : values;
  };
  operators.set(name, invoke);
  return invoke;
}

function isArrayOf(value: unknown, holds: (item: unknown) => boolean): boolean {
  return Array.isArray(value) ? value.every(holds) : ArrayBuffer.isView(value);
}

function putArgument(name: string, argument: OperatorInfo['arguments'][number], value: OperatorArgument): void {
  const refuse = (expected: string): never => {
    throw new TorchError(`${name}: argument '${argument.name}' wants ${expected}, got ${typeof value}`);
  };
  if (argument.kind === 'T') {
    if (value !== null && !(value instanceof Tensor)) refuse('a Tensor');
    putTensor(value as Tensor | null);
    return;
  }
  if (argument.optional) {
    putFlag(value !== null);
    if (value === null) return;
  }
  switch (argument.kind) {
    case 'i':
      if (typeof value === 'string') putDType(value as DType);
      else if (typeof value === 'number' || typeof value === 'boolean') putNumber(Number(value));
      else refuse('an integer or a dtype name');
      break;
    case 'f':
      if (typeof value !== 'number') refuse('a number');
      putNumber(value as number);
      break;
    case 'b':
      putFlag(Boolean(value));
      break;
    case 'S':
      if (typeof value !== 'number' && typeof value !== 'boolean') refuse('a number');
      putScalar(value as number);
      break;
    case 's':
    case 'd':
      putString(String(value));
      break;
    case 'I':
    case 'F':
      if (typeof value === 'number') putNumbers([value]);
      else if (isArrayOf(value, (item) => typeof item === 'number')) putNumbers(value as readonly number[]);
      else refuse('an array of numbers');
      break;
    case 'B':
      if (!isArrayOf(value, (item) => typeof item === 'boolean')) refuse('an array of booleans');
      putFlags(value as readonly boolean[]);
      break;
    case 'L':
    case 'O':
      if (!isArrayOf(value, (item) => item === null || item instanceof Tensor)) refuse('an array of tensors');
      putTensors(value as readonly (Tensor | null)[]);
      break;
    default:
      refuse('something that JavaScript cannot pass');
  }
}

/** The schemas of all operators that this libtorch has. */
export function operatorSchemas(): string[] {
  return native.allSchemas();
}
