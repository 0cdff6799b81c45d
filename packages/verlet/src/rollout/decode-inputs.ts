/**
 * What a captured decode step reads, in memory that never moves. The host writes a page-locked copy, one transfer brings it
 * to the device. Two host copies take turns: the next step is written while the transfer of the last one may still run.
 */
import { CudaEvent, emptyPinned, operator, type Tensor, zeros } from '@verlet/torch';
import type { Sequence } from './sequence.js';

/** 32-bit words per row: five integers, three floats, four 64-bit integers. */
const wordsPerRow = 5 + 3 + 2 * 4;

interface HostCopy {
  memory: Tensor;
  ints: Int32Array;
  floats: Float32Array;
  /** Which blocks array each row of the table was written from, and how many of its entries. */
  rowBlocks: (readonly number[] | null)[];
  rowWritten: Int32Array;
  rowSequence: (Sequence | null)[];
  tokens: Tensor;
  /** Low and high words by turns. */
  tokenWords: Int32Array;
  logProbs: Tensor;
  logProbView: Float32Array;
  done: CudaEvent;
}

export interface DeviceInputs {
  token: Tensor;
  source: Tensor;
  position: Tensor;
  slot: Tensor;
  limit: Tensor;
  temperature: Tensor;
  topP: Tensor;
  minP: Tensor;
  topK: Tensor;
  seed: Tensor;
  stream: Tensor;
  index: Tensor;
  table: Tensor;
}

/** One step that was put on the device: who was in which row, and where its results will stand. */
export interface StagedStep {
  sequences: readonly Sequence[];
  rows: number;
  host: HostCopy;
}

export class DecodeInputs {
  private readonly device: Tensor;
  private readonly hosts: [HostCopy, HostCopy];
  private turn = 0;

  constructor(
    readonly maxRows: number,
    readonly tableWidth: number,
    private readonly blockSize: number,
    deviceName: string,
  ) {
    const words = maxRows * (wordsPerRow + tableWidth);
    this.device = zeros([words], { dtype: 'int32', device: deviceName }).keep();
    const make = (): HostCopy => {
      const memory = emptyPinned([words], { dtype: 'int32' }).keep();
      const tokens = emptyPinned([maxRows], { dtype: 'int64' }).keep();
      const logProbs = emptyPinned([maxRows], { dtype: 'float32' }).keep();
      const buffer = memory.hostView();
      const ints = new Int32Array(buffer).fill(0);
      return {
        memory,
        ints,
        floats: new Float32Array(buffer),
        rowBlocks: new Array<readonly number[] | null>(maxRows).fill(null),
        rowWritten: new Int32Array(maxRows),
        rowSequence: new Array<Sequence | null>(maxRows).fill(null),
        tokens,
        tokenWords: new Int32Array(tokens.hostView()),
        logProbs,
        logProbView: new Float32Array(logProbs.hostView()),
        done: new CudaEvent({ device: deviceName, timing: false }),
      };
    };
    this.hosts = [make(), make()];
  }

  /** Views of the first rows on the device. Kept by the caller. */
  views(rows: number): DeviceInputs {
    const { maxRows } = this;
    const asType = operator('aten::view.dtype') as (x: Tensor, dtype: string) => Tensor;
    const ints = (field: number): Tensor => this.device.narrow(0, field * maxRows, rows).keep();
    const floats = (field: number): Tensor => asType(this.device.narrow(0, field * maxRows, rows), 'float32').keep();
    const longs = (field: number): Tensor =>
      asType(this.device.narrow(0, (8 + 2 * field) * maxRows, 2 * rows), 'int64').keep();
    return {
      token: ints(0),
      source: ints(1),
      position: ints(2),
      slot: ints(3),
      limit: ints(4),
      temperature: floats(5),
      topP: floats(6),
      minP: floats(7),
      topK: longs(0),
      seed: longs(1),
      stream: longs(2),
      index: longs(3),
      table: this.device
        .narrow(0, wordsPerRow * maxRows, rows * this.tableWidth)
        .reshape(rows, this.tableWidth)
        .keep(),
    };
  }

  /**
   * Writes one step and sends it. With `after`, the last token of every sequence is still on the device, in the row that the
   * sequence had there; both lists have the same order.
   */
  stage(sequences: readonly Sequence[], rows: number, after: StagedStep | null): StagedStep {
    const host = this.hosts[this.turn]!;
    this.turn = 1 - this.turn;
    const { ints } = host;
    const { maxRows, blockSize } = this;
    let before = 0;
    for (let row = 0; row < sequences.length; row++) {
      const sequence = sequences[row]!;
      this.writeRow(host, row, sequence);
      let position = sequence.tokens.length - 1;
      let index = sequence.numOutput;
      if (after) {
        while (after.sequences[before] !== sequence) {
          if (++before >= after.sequences.length) throw new Error('a sequence in flight was not in the step before');
        }
        ints[row + maxRows] = before;
        position++;
        index++;
      } else {
        ints[row] = sequence.tokens[position]!;
        ints[row + maxRows] = -1;
      }
      ints[row + 2 * maxRows] = position;
      ints[row + 3 * maxRows] = sequence.blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
      ints[row + 4 * maxRows] = position + 1;
      ints[14 * maxRows + 2 * row] = index;
    }
    for (let row = sequences.length; row < rows; row++) this.clearRow(host, row);
    const words = maxRows * wordsPerRow + rows * this.tableWidth;
    this.device.narrow(0, 0, words).copy_(host.memory.narrow(0, 0, words), true);
    return { sequences, rows, host };
  }

  private writeRow(host: HostCopy, row: number, sequence: Sequence): void {
    const { ints, floats } = host;
    const { maxRows } = this;
    const { blocks } = sequence;
    const start = wordsPerRow * maxRows + row * this.tableWidth;
    if (host.rowBlocks[row] !== blocks) {
      ints.set(blocks, start);
      host.rowBlocks[row] = blocks;
    } else for (let k = host.rowWritten[row]!; k < blocks.length; k++) ints[start + k] = blocks[k]!;
    host.rowWritten[row] = blocks.length;
    if (host.rowSequence[row] === sequence) return;
    host.rowSequence[row] = sequence;
    const { temperature, topP, minP, topK } = sequence.sampling;
    floats[5 * maxRows + row] = temperature;
    floats[6 * maxRows + row] = topP;
    floats[7 * maxRows + row] = minP;
    const long = (field: number, value: number): void => {
      const at = (8 + 2 * field) * maxRows + 2 * row;
      ints[at] = value | 0;
      ints[at + 1] = Math.floor(value / 2 ** 32);
    };
    long(0, topK);
    long(1, sequence.seed);
    long(2, sequence.sampleIndex);
    long(3, 0);
  }

  /** A row that nobody uses: it sees nothing, writes nothing and takes the likeliest token. */
  private clearRow(host: HostCopy, row: number): void {
    const { ints, floats } = host;
    const { maxRows } = this;
    ints[row] = 0;
    ints[row + maxRows] = -1;
    ints[row + 2 * maxRows] = 0;
    ints[row + 3 * maxRows] = -1;
    ints[row + 4 * maxRows] = 0;
    floats[5 * maxRows + row] = 0;
    floats[6 * maxRows + row] = 1;
    floats[7 * maxRows + row] = 0;
    host.rowSequence[row] = null;
  }

  /** Queues the transfer of a step's results to the host. */
  fetch(step: StagedStep, tokens: Tensor, logProbs: Tensor): void {
    const count = step.sequences.length;
    step.host.tokens.narrow(0, 0, count).copy_(tokens.narrow(0, 0, count), true);
    step.host.logProbs.narrow(0, 0, count).copy_(logProbs.narrow(0, 0, count), true);
    step.host.done.record();
  }

  dispose(): void {
    this.device.dispose();
    for (const host of this.hosts) {
      host.memory.dispose();
      host.tokens.dispose();
      host.logProbs.dispose();
      host.done.dispose();
    }
  }
}
