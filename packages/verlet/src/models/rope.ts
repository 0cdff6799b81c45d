/** Rotary position embedding, as Hugging Face lays it out: the two halves of a head are rotated against each other. */
import { aten, cat, noGrad, scope, type Tensor, tensor } from '@verlet/torch';
import type { ModelConfig, RopeScaling } from './config.js';

/** Inverse frequencies, [headDim / 2]. */
export function inverseFrequencies(config: ModelConfig): Float64Array {
  const half = config.headDim / 2;
  const frequencies = Float64Array.from({ length: half }, (_, k) => config.ropeTheta ** (-(2 * k) / config.headDim));
  const scaling = config.ropeScaling;
  if (!scaling) return frequencies;
  if (scaling.type === 'linear') return frequencies.map((frequency) => frequency / scaling.factor);
  if (scaling.type === 'yarn') return yarnFrequencies(frequencies, config, scaling);
  // Llama 3: long wavelengths are stretched, short ones left alone, those between blended.
  const original = scaling.originalMaxPositionEmbeddings!;
  const low = scaling.lowFreqFactor!;
  const high = scaling.highFreqFactor!;
  return frequencies.map((frequency) => {
    const wavelength = (2 * Math.PI) / frequency;
    if (wavelength < original / high) return frequency;
    if (wavelength > original / low) return frequency / scaling.factor;
    const smooth = (original / wavelength - low) / (high - low);
    return ((1 - smooth) * frequency) / scaling.factor + smooth * frequency;
  });
}

/** YaRN: frequencies that turn often within the original length stay, those that hardly turn are stretched, with a ramp between. */
function yarnFrequencies(frequencies: Float64Array, config: ModelConfig, scaling: RopeScaling): Float64Array {
  const dimensionOf = (turns: number): number =>
    (config.headDim * Math.log(scaling.originalMaxPositionEmbeddings! / (turns * 2 * Math.PI))) /
    (2 * Math.log(config.ropeTheta));
  const low = Math.max(0, Math.floor(dimensionOf(scaling.betaFast!)));
  const high = Math.min(config.headDim - 1, Math.ceil(dimensionOf(scaling.betaSlow!)));
  const width = high === low ? 0.001 : high - low;
  return frequencies.map((frequency, k) => {
    const stretched = Math.min(1, Math.max(0, (k - low) / width));
    return (frequency / scaling.factor) * stretched + frequency * (1 - stretched);
  });
}

/** Cosine and sine of every position and frequency, grown on demand; one table serves all layers. */
export class RopeTable {
  private cos: Tensor | null = null;
  private sin: Tensor | null = null;
  private length = 0;

  constructor(
    private readonly config: ModelConfig,
    private readonly device: string,
    private readonly dtype: Tensor['dtype'],
  ) {}

  /** Makes sure positions below `length` are in the table; the tables' addresses change when they grow. */
  reserve(length: number): void {
    if (length <= this.length) return;
    const capacity = Math.min(
      Math.max(length, 2 * this.length, 256),
      Math.max(length, this.config.maxPositionEmbeddings),
    );
    this.dispose();
    noGrad(() =>
      scope(() => {
        // float32 like transformers: angles of far positions round the same way on both sides.
        const inverse = tensor(Float32Array.from(inverseFrequencies(this.config)), { device: this.device });
        const positions = aten.arange(capacity, 'float32', null, this.device);
        const angles = aten.outer(positions, inverse);
        const full = cat([angles, angles], 1);
        const strength = this.config.ropeScaling?.attentionFactor ?? 1;
        this.cos = full.cos().mul(strength).to(this.dtype).keep();
        this.sin = full.sin().mul(strength).to(this.dtype).keep();
      }),
    );
    this.length = capacity;
  }

  /** Rotates each token's heads by its position; x [tokens, heads, headDim]. `inverse` turns back: the gradient. */
  rotate(x: Tensor, positions: Tensor, inverse = false): Tensor {
    return aten.verlet_rope(x, this.cos!, this.sin!, positions, inverse);
  }

  /** Gradients of rotated queries and keys, and of values, to that of the projection, [tokens, heads + 2 kvHeads, headDim]. */
  rotateBack(q: Tensor, k: Tensor, v: Tensor, positions: Tensor): Tensor {
    return aten.verlet_rope_backward(q, k, v, this.cos!, this.sin!, positions);
  }

  /** Rotates the first heads of each token and copies the rest. */
  rotatePartial(x: Tensor, positions: Tensor, rotated: number): Tensor {
    return aten.verlet_rope_partial(x, this.cos!, this.sin!, positions, rotated, false);
  }

  /** The tables themselves; their addresses are good until `reserve` grows them. */
  get tables(): { cos: Tensor; sin: Tensor } {
    return { cos: this.cos!, sin: this.sin! };
  }

  dispose(): void {
    this.cos?.dispose();
    this.sin?.dispose();
  }
}
