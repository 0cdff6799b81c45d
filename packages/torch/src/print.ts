/** A tensor as a person wants to see it: aligned columns, the middle of long dimensions left out. */
import type { Tensor } from './tensor.js';

const edge = 3;
const summarizeAbove = 1000;

function formatter(values: readonly number[], integral: boolean, boolean: boolean): (value: number) => string {
  if (boolean) return (value) => (value ? 'true' : 'false');
  if (integral) return (value) => String(value);
  const finite = values.filter((value) => Number.isFinite(value) && value !== 0).map(Math.abs);
  const largest = Math.max(0, ...finite);
  const smallest = Math.min(Number.POSITIVE_INFINITY, ...finite);
  const scientific = finite.length > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1e7);
  return (value) => {
    if (Number.isNaN(value)) return 'nan';
    if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
    return scientific ? value.toExponential(4) : value.toFixed(4);
  };
}

/** Indices shown along a dimension; -1 stands for the part left out. */
function shown(size: number, summarize: boolean): number[] {
  if (!summarize || size <= 2 * edge) return Array.from({ length: size }, (_, k) => k);
  return [0, 1, 2, -1, size - 3, size - 2, size - 1];
}

export function formatTensor(tensor: Tensor): string {
  const shape = tensor.shape;
  const dtype = tensor.dtype;
  const device = tensor.device;
  const tail = `${dtype}[${shape.join(', ')}]${device === 'cpu' ? '' : ` ${device}`}${tensor.requiresGrad ? ' requiresGrad' : ''}`;
  if (tensor.numel === 0) return `tensor([], ${tail})`;
  const values = tensor.toFloat64Array();
  const summarize = values.length > summarizeAbove;
  const strides = shape.map((_, k) => shape.slice(k + 1).reduce((a, b) => a * b, 1));

  const picked: number[] = [];
  const pick = (dim: number, offset: number): void => {
    if (dim === shape.length) picked.push(values[offset]!);
    else for (const k of shown(shape[dim]!, summarize)) if (k >= 0) pick(dim + 1, offset + k * strides[dim]!);
  };
  pick(0, 0);
  const format = formatter(picked, dtype.startsWith('int') || dtype === 'uint8', dtype === 'bool');
  const width = Math.max(...picked.map((value) => format(value).length));

  const render = (dim: number, offset: number, indent: string): string => {
    if (dim === shape.length) return format(values[offset]!).padStart(width);
    const last = dim === shape.length - 1;
    const items = shown(shape[dim]!, summarize).map((k) =>
      k < 0 ? '...' : render(dim + 1, offset + k * strides[dim]!, `${indent} `),
    );
    return `[${items.join(last ? ', ' : `,\n${indent} `)}]`;
  };
  return `tensor(${render(0, 0, '       ')}, ${tail})`;
}
