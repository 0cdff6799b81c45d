/** Element types, with libtorch's numbers for them. */
const codes = {
  uint8: 0,
  int8: 1,
  int16: 2,
  int32: 3,
  int64: 4,
  float16: 5,
  float32: 6,
  float64: 7,
  bool: 11,
  bfloat16: 15,
} as const;

export type DType = keyof typeof codes;

const names = new Map<number, DType>(Object.entries(codes).map(([name, code]) => [code, name as DType]));

export function dtypeCode(dtype: DType): number {
  const code = codes[dtype];
  if (code === undefined) throw new TypeError(`unknown dtype '${dtype}'; known: ${Object.keys(codes).join(', ')}`);
  return code;
}

export function dtypeName(code: number): DType {
  const name = names.get(code);
  if (name === undefined) throw new TypeError(`libtorch dtype number ${code} has no name here`);
  return name;
}

export const dtypeSize: Record<DType, number> = {
  uint8: 1,
  int8: 1,
  bool: 1,
  int16: 2,
  float16: 2,
  bfloat16: 2,
  int32: 4,
  float32: 4,
  int64: 8,
  float64: 8,
};

export function isFloating(dtype: DType): boolean {
  return dtype === 'float32' || dtype === 'float64' || dtype === 'bfloat16' || dtype === 'float16';
}
