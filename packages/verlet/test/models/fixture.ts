/** What the parity tests share: a fixture's tensors, and passes of a model over its sequences. */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { aten, enableGrad, grad, nn, noGrad, openSafetensors, scope, type Tensor } from '@verlet/torch';
import { type CausalLM, PackedAttention, type TrainingOptions } from '../../src/models/index.js';

export const families = [
  'qwen2',
  'qwen2-window',
  'qwen3',
  'llama2',
  'llama3',
  'llama-biases',
  'qwen2-yarn',
  'phi3',
  'mistral',
] as const;

export function fixtureFolder(name: string): string {
  return path.join(path.dirname(fileURLToPath(import.meta.url)), 'fixtures', name);
}

export interface Expected {
  tensor(name: string): Tensor;
  names(): string[];
  /** The sequences of the fixture. */
  rows: number[][];
}

export function expectedOf(name: string): Expected {
  const reader = openSafetensors(path.join(fixtureFolder(name), 'expected.safetensors'));
  const ids = Array.from(reader.tensor('input_ids').toInt32Array());
  const lengths = Array.from(reader.tensor('lengths').toInt32Array());
  const rows = lengths.map((length) => ids.splice(0, length));
  return { tensor: (key) => reader.tensor(key), names: () => reader.names(), rows };
}

export function maxDifference(a: Tensor, b: Tensor): number {
  if (a.shape.join() !== b.shape.join()) throw new Error(`shapes differ: [${a.shape}] and [${b.shape}]`);
  return scope(() => a.to('float32').sub(b.to('float32')).abs().max().item());
}

/** [tokens, vocabulary] of sequences laid end to end. @param whole see `TrainingOptions` */
export function packedLogits(model: CausalLM, rows: readonly (readonly number[])[], whole?: boolean): Tensor {
  return noGrad(() =>
    scope(() => {
      const context = new PackedAttention(rows.map((row) => row.length));
      const logits = model.logits(model.model.forward(nn.indexTensor(rows.flat()), context, null, whole));
      context.dispose();
      return logits;
    }),
  );
}

/** Runs the layer-wise training pass for a loss given on the logits; gradients end up on the parameters. */
export function trainingPass(
  model: CausalLM,
  rows: readonly (readonly number[])[],
  loss: (logits: Tensor) => Tensor,
  options: TrainingOptions = {},
): void {
  scope(() => {
    const context = new PackedAttention(rows.map((row) => row.length));
    const pass = model.model.forwardForTraining(nn.indexTensor(rows.flat()), context, options);
    const hidden = pass.hidden.detach().setRequiresGrad(true);
    const head = model.headWeight;
    const [gradHidden, gradHead] = enableGrad(() =>
      grad([loss(aten.linear(hidden, head))], head.trainable ? [hidden, head] : [hidden]),
    );
    if (gradHead) head.accumulate(gradHead);
    pass.backward(gradHidden!);
    context.dispose();
  });
}
