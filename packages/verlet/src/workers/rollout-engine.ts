/** Who samples for a rank: the engine on the trainer's own weights, or a server that is given them after every update. */
import path from 'node:path';
import { type PpoConfig, UserError } from '../config/index.js';
import { saveCausalLM } from '../models/checkpoint.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import type { CausalLM } from '../models/transformer.js';
import type { ActivationTape } from '../rollout/activation-tape.js';
import { BATCH_TOKENS_PER_STEP, RolloutEngine } from '../rollout/engine.js';
import { HttpEngine } from '../rollout/http-engine.js';
import type { Engine } from '../rollout/types.js';

export interface RolloutEngineParts {
  config: PpoConfig;
  model: CausalLM;
  tokenizer: Tokenizer;
  /** Where the model came from; its tokenizer files go along with new weights. */
  folder: string;
  rank: number;
  tape: ActivationTape | null;
}

/** Whatever the engine is called: with an address it is a server (`http` is refused without one), else the built-in engine. */
export function samplesRemotely({ actor_rollout_ref: { rollout } }: PpoConfig): boolean {
  return rollout.server.base_url !== null;
}

export async function openRolloutEngine(parts: RolloutEngineParts): Promise<Engine> {
  const { config, model, tokenizer } = parts;
  const { rollout } = config.actor_rollout_ref;
  const maxModelLength = rollout.max_model_len ?? rollout.prompt_length + rollout.response_length;
  if (!samplesRemotely(config))
    return new RolloutEngine(model, {
      maxNumSeqs: rollout.max_num_seqs,
      maxNumBatchedTokens: rollout.max_num_batched_tokens,
      maxModelLength,
      enablePrefixCaching: rollout.enable_prefix_caching,
      gpuMemoryUtilization: rollout.gpu_memory_utilization,
      tokenizer,
      seed: rollout.seed,
      tape: parts.tape,
      tokensPerStep: BATCH_TOKENS_PER_STEP,
    });
  const { server } = rollout;
  return HttpEngine.connect({
    baseUrl: server.base_url!,
    apiKey: server.api_key ?? undefined,
    model: server.model ?? undefined,
    timeoutMs: server.timeout * 1000,
    maxConcurrency: server.max_concurrency,
    maxModelLength,
    endTokenIds: tokenizer.eosTokenIds,
    // Ranks hold the same weights, and the server is one: the first brings them.
    ...(parts.rank === 0 ? { transferWeights: () => transferWeights(parts) } : {}),
  });
}

/** SGLang's way, which `verlet serve --control` knows too: weights in a folder that the server can read. */
async function transferWeights({ config, model, folder: source }: RolloutEngineParts): Promise<void> {
  const { server } = config.actor_rollout_ref.rollout;
  const folder = path.resolve(config.trainer.default_local_dir, 'rollout_weights');
  await saveCausalLM(model, folder, { source });
  const root = server.base_url!.replace(/\/+$/, '').replace(/\/v1$/, '');
  const response = await fetch(`${root}/update_weights_from_disk`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(server.api_key ? { authorization: `Bearer ${server.api_key}` } : {}),
    },
    body: JSON.stringify({ model_path: folder }),
    signal: AbortSignal.timeout(server.timeout * 1000),
  });
  const text = await response.text();
  if (response.ok && !/"success"\s*:\s*false/.test(text)) return;
  const hint =
    response.status === 404 || response.status === 405
      ? '; it must offer /update_weights_from_disk (SGLang does, and verlet serve with --control)'
      : '';
  throw new UserError(
    `${root} did not take the weights in ${folder}, and would go on sampling from old ones: ${response.status} ${text.slice(0, 200)}${hint}`,
  );
}
