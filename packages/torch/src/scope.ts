/**
 * Who frees what. The garbage collector does not see device memory, so ownership is explicit: a tensor belongs to the scope
 * in which it was made and is freed when that scope ends, unless it is returned or kept. Outside of any scope a tensor lives
 * until `dispose()`; finalizers are only a net under that.
 */
import { sharedBuffer } from './door.js';
import { native } from './native.js';
import type { TensorHandle } from './tensor-handle.js';

/** What a freed tensor holds instead of a slot number; -1 stands for "no tensor" where one is optional. */
export const disposed = -2;

export class Scope {
  readonly tensors: TensorHandle[] = [];
  constructor(readonly parent: Scope | null) {}
}

let current: Scope | null = null;

const net = new FinalizationRegistry<number>((handle) => {
  native.account(handle, -1);
  native.release(handle);
});

/** Owner of the tensors that something else than a scope holds. It never ends. */
const held = new Scope(null);

const holders = new FinalizationRegistry<number>((handle) => native.release(handle));

/** Called by every new tensor. */
export function adopt(tensor: TensorHandle): void {
  if (current) {
    tensor.owner = current;
    current.tensors.push(tensor);
  } else release(tensor);
}

/** Lets a tensor outlive all scopes; from now on it lives until `dispose()`. */
export function release(tensor: TensorHandle): void {
  if (tensor.owner === held) holders.unregister(tensor);
  tensor.owner = null;
  net.register(tensor, tensor.handle, tensor);
  native.account(tensor.handle, 1);
}

/**
 * Lets a tensor outlive all scopes until `dispose()`, or until `holder` is gone. The collector is not told how large it is:
 * every pass has hundreds of such tensors, frees them itself, and would only be held up.
 */
export function hold(tensor: TensorHandle, holder: object): void {
  if (!tensor.owner) forget(tensor);
  if (tensor.owner === held) holders.unregister(tensor);
  tensor.owner = held;
  holders.register(holder, tensor.handle, tensor);
}

/** The tensor was disposed by hand: the nets must not free its slot again. */
export function forget(tensor: TensorHandle): void {
  if (tensor.owner === held) holders.unregister(tensor);
  if (tensor.owner) return;
  net.unregister(tensor);
  native.account(tensor.handle, -1);
}

function collect(value: unknown, found: Set<TensorHandle>, depth: number): void {
  if (value === null || typeof value !== 'object') return;
  if (isTensor(value)) {
    found.add(value);
    return;
  }
  if (depth > 8) return;
  if (Array.isArray(value)) for (const item of value) collect(item, found, depth + 1);
  else if (value instanceof Map) for (const item of value.values()) collect(item, found, depth + 1);
  else if (Object.getPrototypeOf(value) === Object.prototype)
    for (const item of Object.values(value)) collect(item, found, depth + 1);
}

function isTensor(value: object): value is TensorHandle {
  return 'handle' in value && 'owner' in value;
}

function end(scope: Scope, result: unknown): void {
  current = scope.parent;
  const survivors = new Set<TensorHandle>();
  collect(result, survivors, 0);
  const buffer = sharedBuffer(scope.tensors.length);
  let count = 0;
  for (const tensor of scope.tensors) {
    if (tensor.owner !== scope || tensor.handle < 0) continue;
    if (survivors.has(tensor)) {
      if (scope.parent) {
        tensor.owner = scope.parent;
        scope.parent.tensors.push(tensor);
      } else release(tensor);
    } else {
      buffer[count++] = tensor.handle;
      tensor.handle = disposed;
    }
  }
  native.releaseMany(count);
}

/**
 * Runs `body` and frees every tensor made inside it that is not part of the result (a tensor, or arrays, maps and plain
 * objects of them). Scopes nest. `body` must be synchronous: other code would run inside the scope while it waits.
 *
 * @example
 * const loss = scope(() => model(x).sub(y).square().mean());
 */
export function scope<T>(body: () => T): T {
  const mine = new Scope(current);
  current = mine;
  let result: T;
  try {
    result = body();
  } catch (error) {
    end(mine, undefined);
    throw error;
  }
  if (result instanceof Promise) {
    end(mine, undefined);
    throw new TypeError(
      'scope() wants a synchronous function: tensors made after an await would belong to another scope',
    );
  }
  end(mine, result);
  return result;
}

/** Live tensors of this thread and the bytes behind them, each storage counted once. */
export function liveTensors(): { count: number; bytes: number } {
  return { count: native.liveCount(), bytes: native.liveBytes() };
}
