/** The addon's own functions, typed. Tensors are slot numbers here; `Tensor` gives them a life. */
import { native as loaded } from './load.js';

export interface OperatorInfo {
  index: number;
  schema: string;
  singleTensor: boolean;
  arguments: { name: string; kind: string; optional: boolean; hasDefault: boolean }[];
  returns: string[];
  aliases: number[];
}

export interface BuildInfo {
  version: string;
  cpuCapability: string;
  config: string;
  parallel: string;
  hasMkldnn: boolean;
  hasMps: boolean;
  /** CUDA parts were compiled into the addon. */
  cuda: boolean;
  cudaAvailable: boolean;
  cudaDevices: number;
}

export type AnyTypedArray =
  | Float32Array
  | Float64Array
  | Int32Array
  | Int16Array
  | Int8Array
  | Uint8Array
  | Uint16Array
  | BigInt64Array;

export interface Native {
  call(operator: number): number;
  resolve(name: string): OperatorInfo;
  argumentBuffer(length: number): Float64Array;
  internString(text: string): number;
  allSchemas(): string[];
  setErrorClass(errorClass: new (message: string, kind: string) => Error): void;

  fromTypedArray(array: AnyTypedArray, shape: readonly number[], dtype: number): number;
  copyToTypedArray(handle: number, array: AnyTypedArray): void;
  hostView(handle: number): ArrayBuffer;
  copyBytes(handle: number, byteOffset: number, target: Uint8Array): void;
  shape(handle: number): number;
  dtype(handle: number): number;
  device(handle: number): string;
  stride(handle: number): number[];
  flag(handle: number, which: number): boolean;
  numel(handle: number): number;
  elementSize(handle: number): number;
  dataPointer(handle: number): number;
  item(handle: number): number;
  alias(handle: number): number;
  release(handle: number): void;
  releaseMany(count: number): void;
  liveCount(): number;
  liveBytes(): number;
  /** Tells the garbage collector (1) or takes back (-1) how much memory hangs on a tensor that no scope owns. */
  account(handle: number, sign: number): void;

  backward(outputs: number[], gradOutputs: number[], retainGraph: boolean): void;
  grad(
    outputs: number[],
    inputs: number[],
    gradOutputs: number[],
    retainGraph: boolean,
    allowUnused: boolean,
    createGraph: boolean,
  ): number[];
  setRequiresGrad(handle: number, value: boolean): void;
  gradOf(handle: number): number;
  setGrad(handle: number, grad: number): void;
  setGradMode(enabled: boolean): boolean;
  gradMode(): boolean;

  threads(count?: number): number;
  manualSeed(seed: number): void;
  generatorState(device: string): number;
  setGeneratorState(device: string, handle: number): void;
  buildInfo(): BuildInfo;
  setDeterministic(enabled: boolean): void;

  mapFile(path: string): unknown;
  mappedTensor(file: unknown, byteOffset: number, shape: readonly number[], dtype: number): number;
}

export const native = loaded as unknown as Native;
