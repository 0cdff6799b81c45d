/**
 * The training pass of a small decoder on the CPU in two native calls, there and back, instead of operator by operator: the same
 * sums, with what passes between them still in a core's cache. The layers in `decoder-layer.ts` are what it must equal.
 */
import { aten, getThreads, noGrad, scope, type Tensor, zeros } from '@verlet/torch';
import type { AttentionContext } from './attention.js';
import { PackedAttention } from './attention.js';
import type { ModelConfig } from './config.js';
import type { PackedLinear } from './linear.js';
import { recomputeAt } from './recompute.js';
import type { Decoder, DecoderPass, TrainingOptions } from './transformer.js';

/** Every thread sums gradients of its own; beyond this, products are so large that what lies between them hardly counts. */
const mostBytes = 64 * 2 ** 20;

/** Whether the layers' shape is one that the native passes know. */
export function isPlainDecoder({ config, options }: Decoder): boolean {
  return (
    (options.device ?? 'cpu') === 'cpu' &&
    (options.dtype ?? 'float32') === 'float32' &&
    !config.outputBias &&
    !config.mlpBias &&
    config.headDim % 2 === 0
  );
}

/** Whether the decoder is one that is trained in native calls. */
export function trainsWhole(decoder: Decoder): boolean {
  const linears = decoder.layers.flatMap(linearsOf);
  return (
    isPlainDecoder(decoder) &&
    linears.every(({ adapters }) => adapters.every((adapter) => !adapter?.enabled)) &&
    4 * linears.reduce((sum, { weight }) => sum + weight.numel, 0) <= mostBytes &&
    aten.verlet_has_fast_products()
  );
}

/** Whether this pass of it is. */
export function canPassWhole(
  decoder: Decoder,
  context: AttentionContext,
  { recompute, whole }: TrainingOptions,
): context is PackedAttention {
  if (whole === false || !(context instanceof PackedAttention) || !trainsWhole(decoder)) return false;
  if (decoder.layers.some((_, k) => recomputeAt(k, recompute) !== 'none')) return false;
  return whole === true || isBalanced(context);
}

const linearsOf = ({ self_attn, mlp }: Decoder['layers'][number]): PackedLinear[] => [
  self_attn.qkv_proj,
  self_attn.o_proj,
  mlp.gate_up_proj,
  mlp.down_proj,
];

/** A family of sequences is one thread's work: none may be much more than a thread's share. */
function isBalanced({ lengths, prefixes }: PackedAttention): boolean {
  const families = [...lengths];
  let total = 0;
  for (const [k, length] of lengths.entries()) {
    total += length;
    const prefix = prefixes[k] ?? -1;
    if (prefix >= 0) families[prefix]! += length;
  }
  return Math.max(0, ...families) * getThreads() <= 1.5 * total;
}

/** What the native passes take of each layer: nine tensors, nothing where the model has none. */
export function layerWeights({ layers }: Decoder, pack: (linear: PackedLinear) => Tensor): Tensor[] {
  const none = zeros([0]);
  return layers.flatMap(({ self_attn, mlp, input_layernorm, post_attention_layernorm }) => [
    input_layernorm.weight.detach(),
    pack(self_attn.qkv_proj),
    self_attn.qkv_proj.bias?.detach() ?? none,
    self_attn.q_norm?.weight.detach() ?? none,
    self_attn.k_norm?.weight.detach() ?? none,
    pack(self_attn.o_proj),
    post_attention_layernorm.weight.detach(),
    pack(mlp.gate_up_proj),
    pack(mlp.down_proj),
  ]);
}

/** What both ways are told besides tokens and weights. */
function constants(decoder: Decoder): [Tensor, Tensor, number, number, number, number[], number] {
  const { config } = decoder;
  const { cos, sin } = decoder.rotaryTables;
  const windows = Array.from({ length: config.numLayers }, (_, k) => config.slidingWindows[k] ?? 0);
  return [cos, sin, config.numHeads, config.numKvHeads, config.intermediateSize, windows, config.rmsNormEps];
}

/** Activations of tokens, from which a pass can be walked back. */
export interface Recorded {
  /** Pieces [rows, size]. */
  tape: readonly Tensor[];
  /** Each token's row of the tape, [tokens] int64. */
  index: Tensor;
}

/** Numbers that the record of a token has, as the native side lays it out: parts begin at whole vectors. */
export function recordWidth(config: ModelConfig): number {
  const { hiddenSize, intermediateSize, numHeads, numKvHeads, headDim, numLayers, qkNorm } = config;
  const padded = (width: number): number => Math.ceil(width / 16) * 16;
  const layer = [
    hiddenSize,
    (numHeads + 2 * numKvHeads) * headDim,
    qkNorm ? (numHeads + numKvHeads) * headDim : 0,
    numHeads * headDim,
    numHeads,
    hiddenSize,
    2 * intermediateSize,
  ];
  return numLayers * layer.reduce((sum, width) => sum + padded(width), 0) + padded(hiddenSize);
}

/** Hidden states behind the last norm. @param rows the tokens whose they are */
export function recordedHidden(decoder: Decoder, { tape, index }: Recorded, rows: Tensor): Tensor {
  return noGrad(() =>
    scope(() =>
      aten.verlet_decoder_hidden(
        tape,
        index.indexSelect(0, rows),
        decoder.norm.weight.detach(),
        decoder.config.rmsNormEps,
      ),
    ),
  );
}

/** A pass that was made before: only the way back is left. Whoever recorded it keeps it. */
export function resumePass(
  decoder: Decoder,
  inputIds: Tensor,
  context: PackedAttention,
  rows: Tensor,
  recorded: Recorded,
): DecoderPass {
  decoder.reservePositions(context.maxPosition);
  return wayBack(decoder, inputIds, context, rows, recordedHidden(decoder, recorded, rows), recorded, []);
}

type Forward = [hidden: Tensor, tape: Tensor, index: Tensor];

function forward(
  decoder: Decoder,
  inputIds: Tensor,
  context: PackedAttention,
  rows: Tensor | null,
  keep: boolean,
): Forward {
  return noGrad(() =>
    scope(() =>
      aten.verlet_decoder_forward(
        inputIds,
        context.positions,
        context.lengths,
        context.prefixes,
        rows ?? everyToken(inputIds),
        decoder.embed_tokens.weight.detach(),
        decoder.norm.weight.detach(),
        layerWeights(decoder, ({ weight }) => aten.verlet_pack_weight(weight.detach())),
        ...constants(decoder),
        keep,
      ),
    ),
  );
}

const everyToken = (inputIds: Tensor): Tensor => aten.arange(inputIds.numel, 'int64');

/** Hidden states behind the last norm, for a pass that is not walked back. */
export function hiddenStates(
  decoder: Decoder,
  inputIds: Tensor,
  context: PackedAttention,
  rows: Tensor | null,
): Tensor {
  return scope(() => forward(decoder, inputIds, context, rows, false)[0]);
}

export function passWhole(
  decoder: Decoder,
  inputIds: Tensor,
  context: PackedAttention,
  rows: Tensor = everyToken(inputIds),
): DecoderPass {
  const holder = {};
  const [hidden, tape, index] = forward(decoder, inputIds, context, rows, true);
  for (const tensor of [hidden, tape, index]) tensor.heldBy(holder);
  return wayBack(decoder, inputIds, context, rows, hidden, { tape: [tape], index }, [hidden, tape, index], holder);
}

/** `held` is freed with the pass; `holder` is what else keeps it. */
function wayBack(
  decoder: Decoder,
  inputIds: Tensor,
  context: PackedAttention,
  rows: Tensor,
  hidden: Tensor,
  recorded: Recorded,
  held: readonly Tensor[],
  holder?: object,
): DecoderPass {
  const dispose = (): void => {
    void holder;
    for (const tensor of held) tensor.dispose();
  };
  return {
    hidden,
    backward: (gradHidden) => {
      noGrad(() => scope(() => backward(decoder, inputIds, context, rows, recorded, gradHidden)));
      dispose();
    },
    dispose,
  };
}

function backward(
  decoder: Decoder,
  inputIds: Tensor,
  context: PackedAttention,
  rows: Tensor,
  { tape, index }: Recorded,
  gradHidden: Tensor,
): void {
  const [toInput, ...gradients] = aten.verlet_decoder_backward(
    gradHidden.contiguous(),
    tape,
    index,
    context.positions,
    context.lengths,
    context.prefixes,
    rows,
    decoder.norm.weight.detach(),
    layerWeights(decoder, ({ weight }) => aten.verlet_pack_weight(weight.detach().t())),
    ...constants(decoder),
  );
  const parameters = decoder.layers.flatMap(({ self_attn, mlp, input_layernorm, post_attention_layernorm }) => [
    input_layernorm.weight,
    self_attn.qkv_proj.weight,
    self_attn.qkv_proj.bias,
    self_attn.q_norm?.weight,
    self_attn.k_norm?.weight,
    self_attn.o_proj.weight,
    post_attention_layernorm.weight,
    mlp.gate_up_proj.weight,
    mlp.down_proj.weight,
  ]);
  for (const [k, parameter] of [...parameters, decoder.norm.weight].entries())
    if (parameter?.trainable) parameter.accumulate(gradients[k]!);
  const { weight } = decoder.embed_tokens;
  if (weight.trainable) weight.accumulateRows(inputIds, toInput!);
}
