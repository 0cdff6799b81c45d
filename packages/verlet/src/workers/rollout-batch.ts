/** Trajectories as the rows of a batch: prompts padded on the left, responses on the right, verl's names. */
import { scope, type Tensor, tensor } from '@verlet/torch';
import type { Trajectory } from '../agents/index.js';
import { DataProto } from '../protocol/index.js';

export interface PaddingWidths {
  promptLength: number;
  responseLength: number;
  padTokenId: number;
}

export function trajectoriesToBatch(trajectories: readonly Trajectory[], widths: PaddingWidths): DataProto {
  const { promptLength, responseLength, padTokenId } = widths;
  const rows = trajectories.length;
  const width = promptLength + responseLength;
  const inputIds = new Int32Array(rows * width).fill(padTokenId);
  const attentionMask = new Uint8Array(rows * width);
  const positionIds = new Int32Array(rows * width);
  const responseMask = new Uint8Array(rows * responseLength);
  const rolloutLogProbs = new Float32Array(rows * responseLength);
  for (const [row, trajectory] of trajectories.entries()) {
    const prompt = trajectory.promptIds.slice(-promptLength);
    const response = trajectory.responseIds.slice(0, responseLength);
    const start = row * width + promptLength - prompt.length;
    inputIds.set(prompt, start);
    inputIds.set(response, start + prompt.length);
    attentionMask.fill(1, start, start + prompt.length + response.length);
    for (let k = 0, position = -1; k < width; k++) {
      position += attentionMask[row * width + k]!;
      positionIds[row * width + k] = Math.max(0, position);
    }
    for (let k = 0; k < response.length; k++) {
      responseMask[row * responseLength + k] = trajectory.responseMask[k]!;
      rolloutLogProbs[row * responseLength + k] = trajectory.rolloutLogProbs[k]!;
    }
  }
  const long = (values: Int32Array | Uint8Array, columns: number): Tensor =>
    tensor(values, { shape: [rows, columns], dtype: 'int64' });
  return scope(() => {
    const all = long(inputIds, width);
    return DataProto.fromDict({
      tensors: {
        input_ids: all,
        attention_mask: long(attentionMask, width),
        position_ids: long(positionIds, width),
        prompts: all.narrow(1, 0, promptLength).contiguous(),
        responses: all.narrow(1, promptLength, responseLength).contiguous(),
        response_mask: long(responseMask, responseLength),
        rollout_log_probs: tensor(rolloutLogProbs, { shape: [rows, responseLength] }),
      },
      nonTensors: {
        __num_turns__: trajectories.map((trajectory) => trajectory.numTurns),
        trajectory: trajectories.map(({ segments: _, ...rest }) => rest),
      },
    });
  });
}
