/**
 * Largest differencing, k ways (Karmarkar and Karp 1982): the two partial solutions of largest spread are merged, heaviest
 * part of one with lightest of the other, until one is left. Ties are broken by a total order, so the result is the same on
 * every rank.
 */

interface Part {
  sum: number;
  /** Item numbers in the order they came in. */
  items: number[];
}

/** `parts` are sorted, heaviest first. */
type Solution = Part[];

function compareParts(a: Part, b: Part): number {
  if (a.sum !== b.sum) return a.sum - b.sum;
  if (a.items.length !== b.items.length) return a.items.length - b.items.length;
  for (let k = 0; k < a.items.length; k++) if (a.items[k] !== b.items[k]) return a.items[k]! - b.items[k]!;
  return 0;
}

const spreadOf = (solution: Solution): number => solution[0]!.sum - solution.at(-1)!.sum;

/** Negative when `a` is merged before `b`. */
function compareSolutions(a: Solution, b: Solution): number {
  return spreadOf(b) - spreadOf(a) || compareParts(b[0]!, a[0]!);
}

function merge(a: Solution, b: Solution): Solution {
  const last = a.length - 1;
  return a
    .map((part, k) => ({ sum: part.sum + b[last - k]!.sum, items: part.items.concat(b[last - k]!.items) }))
    .sort((x, y) => compareParts(y, x));
}

/** A binary heap; the first to be merged is on top. */
class Queue {
  private readonly heap: Solution[] = [];

  get size(): number {
    return this.heap.length;
  }

  push(solution: Solution): void {
    const { heap } = this;
    let at = heap.push(solution) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (compareSolutions(heap[at]!, heap[parent]!) >= 0) break;
      [heap[at], heap[parent]] = [heap[parent]!, heap[at]!];
      at = parent;
    }
  }

  pop(): Solution {
    const { heap } = this;
    const top = heap[0]!;
    const moved = heap.pop()!;
    if (heap.length === 0) return top;
    heap[0] = moved;
    for (let at = 0; ; ) {
      let first = at;
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < heap.length && compareSolutions(heap[child]!, heap[first]!) < 0) first = child;
      if (first === at) return top;
      [heap[at], heap[first]] = [heap[first]!, heap[at]!];
      at = first;
    }
  }
}

function checkPartitions(count: number, partitions: number, equalSize: boolean): void {
  if (!Number.isInteger(partitions) || partitions < 1)
    throw new RangeError(`the number of partitions must be a positive integer, got ${partitions}`);
  if (count < partitions) throw new RangeError(`${count} items cannot fill ${partitions} partitions`);
  if (equalSize && count % partitions !== 0)
    throw new RangeError(`${count} items do not divide into ${partitions} partitions of equal size`);
}

/** Item numbers of each partition (heaviest first, sorted inside), with sums as equal as differencing makes them. */
export function karmarkarKarp(lengths: readonly number[], partitions: number, equalSize = false): number[][] {
  checkPartitions(lengths.length, partitions, equalSize);
  const order = [...lengths.keys()].sort((a, b) => lengths[a]! - lengths[b]! || a - b);
  const step = equalSize ? partitions : 1;
  const queue = new Queue();
  for (let start = 0; start < order.length; start += step) {
    const items = order.slice(start, start + step);
    const parts = Array.from({ length: partitions }, (_, k): Part => {
      const item = items[k];
      return item === undefined ? { sum: 0, items: [] } : { sum: lengths[item]!, items: [item] };
    });
    queue.push(parts.sort((a, b) => compareParts(b, a)));
  }
  while (queue.size > 1) queue.push(merge(queue.pop(), queue.pop()));
  return queue.pop().map((part) => part.items.sort((a, b) => a - b));
}

/** In the given order, each item to the lightest partition; the first of them on a tie. */
export function greedyPartition(lengths: readonly number[], partitions: number, equalSize = false): number[][] {
  checkPartitions(lengths.length, partitions, equalSize);
  // Heavier than everything together: a partition with fewer items is always lighter.
  const bias = equalSize ? lengths.reduce((sum, length) => sum + length, 0) + 1 : 0;
  const parts = Array.from({ length: partitions }, (): Part => ({ sum: 0, items: [] }));
  for (const [item, length] of lengths.entries()) {
    const lightest = parts.reduce((best, part) => (part.sum < best.sum ? part : best));
    lightest.items.push(item);
    lightest.sum += length + bias;
  }
  return parts.map((part) => part.items);
}
