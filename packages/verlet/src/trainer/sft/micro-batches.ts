import { rearrangeMicroBatches } from '../../algorithms/index.js';
import { type SftConfig, UserError } from '../../config/index.js';

/** How a batch is cut for the passes of the model: by tokens with `use_dynamic_bsz`, else by examples, in order. */
export function cutMicroBatches<Item>(
  items: readonly Item[],
  lengthOf: (item: Item) => number,
  config: SftConfig['data'],
): Item[][] {
  if (config.use_dynamic_bsz) {
    const lengths = items.map(lengthOf);
    const longest = Math.max(0, ...lengths);
    if (longest > config.max_token_len_per_gpu)
      throw new UserError(
        `an example has ${longest} tokens, more than data.max_token_len_per_gpu=${config.max_token_len_per_gpu}; ` +
          'raise that or lower data.max_length',
      );
    return rearrangeMicroBatches(lengths, config.max_token_len_per_gpu).map((part) => part.map((k) => items[k]!));
  }
  const size = config.micro_batch_size ?? config.micro_batch_size_per_gpu ?? items.length;
  const parts: Item[][] = [];
  for (let start = 0; start < items.length; start += size) parts.push(items.slice(start, start + size));
  return parts;
}
