/**
 * Backward, layer by layer, driven from here instead of by one big graph. A model is a list of segments, each a function of
 * one activation and its own parameters. Forward keeps the activations between them; with recomputation it keeps nothing
 * else and runs each segment again when its turn comes. Between two segments a caller may reduce gradients, load weights or
 * move memory, without hooks from native threads.
 */
import { enableGrad, grad, noGrad } from '../autograd.js';
import { scope } from '../scope.js';
import type { Tensor } from '../tensor.js';
import type { Parameter } from './parameter.js';

export interface Segment {
  /** Parameters that get gradients from this segment. A shared parameter may stand in several. */
  parameters(): Iterable<Parameter>;
  forward(input: Tensor): Tensor;
}

export interface ForwardOptions {
  /** Keep only what enters each segment and compute the rest again in backward. */
  recompute?: boolean;
  /** Called when a segment's gradients are complete for this pass. */
  onSegmentBackward?: (index: number) => void;
}

interface Frame {
  input: Tensor;
  /** The segment's output with its graph; null when it will be computed again. */
  output: Tensor | null;
}

/** One forward pass that can be walked back once. Dispose it when no backward will come. */
export class SegmentTape {
  private frames: Frame[] = [];

  private constructor(
    private readonly segments: readonly Segment[],
    private readonly options: ForwardOptions,
    readonly output: Tensor,
  ) {}

  static forward(segments: readonly Segment[], input: Tensor, options: ForwardOptions = {}): SegmentTape {
    const frames: Frame[] = [];
    let current = input.detach().keep();
    for (const segment of segments) {
      // The first activation needs a gradient only if someone upstream trains; asking for it is cheap and keeps one path.
      current.setRequiresGrad(true);
      const output = scope(() =>
        options.recompute ? noGrad(() => segment.forward(current)) : enableGrad(() => segment.forward(current)),
      ).keep();
      frames.push({ input: current, output: options.recompute ? null : output });
      current = options.recompute ? output : output.detach().keep();
    }
    const tape = new SegmentTape(segments, options, current);
    tape.frames = frames;
    return tape;
  }

  /** Adds gradients to the parameters of every segment and returns the gradient of the input. Frees the tape as it goes. */
  backward(gradOutput: Tensor): Tensor {
    let gradient = gradOutput;
    for (let index = this.segments.length - 1; index >= 0; index--) {
      const segment = this.segments[index]!;
      const frame = this.frames[index]!;
      const incoming = gradient;
      gradient = scope(() => {
        const output = frame.output ?? enableGrad(() => segment.forward(frame.input));
        const parameters = [...segment.parameters()].filter((parameter) => parameter.trainable);
        const [inputGradient, ...gradients] = grad([output], [frame.input, ...parameters], [incoming], {
          allowUnused: true,
        });
        parameters.forEach((parameter, k) => {
          const own = gradients[k];
          if (own) parameter.accumulate(own);
        });
        if (!inputGradient) throw new Error(`segment ${index} does not depend on its input`);
        return inputGradient;
      });
      if (incoming !== gradOutput) incoming.dispose();
      frame.output?.dispose();
      frame.input.dispose();
      this.options.onSegmentBackward?.(index);
    }
    this.frames = [];
    this.output.dispose();
    return gradient;
  }

  dispose(): void {
    for (const frame of this.frames) {
      frame.output?.dispose();
      frame.input.dispose();
    }
    this.frames = [];
    this.output.dispose();
  }
}
