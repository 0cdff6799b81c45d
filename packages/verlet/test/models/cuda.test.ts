/** The training pass on CUDA in bfloat16 against the CPU's in float32, from the same weights. */
import { isCudaAvailable, manualSeed, nn, scope, type Tensor } from '@verlet/torch';
import { describe, expect, it } from 'vitest';
import { applyLora, type CausalLM, createCausalLM, PackedAttention, type Recompute } from '../../src/models/index.js';

const reason = isCudaAvailable() ? '' : ' (skipped: no CUDA device here)';
const shape = {
  hidden_size: 128,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  intermediate_size: 256,
  vocab_size: 512,
  max_position_embeddings: 256,
  tie_word_embeddings: true,
  initializer_range: 0.05,
};

/** Gradients of the mean log-probability of each next token, on the CPU in float32. */
function gradients(model: CausalLM, lengths: number[], recompute: Recompute): Map<string, Tensor> {
  const { device } = model;
  const tokens = lengths.reduce((sum, length) => sum + length, 0);
  const ids = Int32Array.from({ length: tokens + 1 }, (_, k) => (k * 7919) % 512);
  model.clearGradients();
  scope(() => {
    const context = new PackedAttention(lengths, device);
    const pass = model.model.forwardForTraining(nn.indexTensor(ids.subarray(0, tokens), device), context, {
      recompute,
    });
    const targets = nn.indexTensor(ids.subarray(1), device);
    const { gradHidden } = nn.headStep(pass.hidden, model.headWeight, targets, ({ logProbs }) => ({
      logProbs: logProbs.mul(0).add(1 / tokens),
    }));
    pass.backward(gradHidden);
    context.dispose();
  });
  const found = new Map<string, Tensor>();
  for (const [name, parameter] of model.namedParameters())
    if (parameter.gradient) found.set(name, parameter.gradient.to('cpu').keep());
  model.clearGradients();
  return found;
}

const apart = (a: Tensor, b: Tensor): number => scope(() => a.sub(b).norm().item() / b.norm().item());

describe.skipIf(reason !== '')(`training on CUDA${reason}`, () => {
  it.each(['qwen2', 'qwen3', 'llama'])(
    'gives the gradients of the CPU, in every mode and with adapters: %s',
    (family) => {
      manualSeed(7);
      const config = { ...shape, model_type: family };
      const own = createCausalLM(config, { device: 'cuda:0', dtype: 'bfloat16' });
      const reference = createCausalLM(config);
      for (const withAdapters of [false, true]) {
        if (withAdapters) for (const model of [own, reference]) applyLora(model, { rank: 4 });
        const parameters = new Map(own.namedParameters());
        scope(() => {
          for (const [name, parameter] of reference.namedParameters()) {
            // Adapters start where nothing flows back to their first half.
            if (name.endsWith('lora_B')) parameters.get(name)!.detach().fill_(0.02);
            parameter.detach().copy_(parameters.get(name)!.detach().to('cpu').to('float32'));
          }
        });
        // Of one length, which goes as a batch, and of many.
        for (const lengths of [
          [64, 64],
          [70, 1, 33],
        ]) {
          const wanted = gradients(reference, lengths, 'none');
          for (const recompute of ['none', 'selective', 'full'] as const) {
            const got = gradients(own, lengths, recompute);
            expect([...got.keys()]).toEqual([...wanted.keys()]);
            for (const [name, gradient] of got) {
              expect(apart(gradient, wanted.get(name)!), `${name}, ${recompute}`).toBeLessThan(0.05);
              gradient.dispose();
            }
          }
          for (const gradient of wanted.values()) gradient.dispose();
        }
      }
      own.dispose();
      reference.dispose();
    },
  );
});
