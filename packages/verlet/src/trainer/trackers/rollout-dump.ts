/** Every trajectory of a step as JSON lines, under verl's names, with what each token was and where it came from. */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { AgentRow, Trajectory } from '../../agents/index.js';
import type { DataProto } from '../../protocol/index.js';

export type Decode = (ids: ArrayLike<number>, options?: { skipSpecialTokens?: boolean }) => string;

export interface RolloutRow {
  step: number;
  uid: string;
  data_source: string;
  input: string;
  output: string;
  gts: unknown;
  score: number;
  num_turns: number;
  end_reason: string;
  /** Each response token as text. */
  tokens: string[];
  response_ids: number[];
  /** 1: sampled by the policy, trained on; 0: came from a tool, a user or an environment. */
  response_mask: number[];
  rollout_log_probs: number[];
  old_log_probs?: number[];
  ref_log_prob?: number[];
  advantages?: number[];
  [extra: string]: unknown;
}

const PER_TOKEN = ['old_log_probs', 'ref_log_prob', 'advantages'] as const;

export function rolloutRows(batch: DataProto, step: number, decode: Decode): RolloutRow[] {
  const trajectories = batch.column<Trajectory>('trajectory');
  const rows = batch.column<AgentRow>('agent_row');
  const extras = batch.nonTensorBatch.has('reward_extra_info')
    ? batch.column<Record<string, unknown> | undefined>('reward_extra_info')
    : [];
  const scores = batch.tensor('token_level_scores').toFloat32Array();
  const width = batch.tensor('responses').size(1);
  const perToken = PER_TOKEN.filter((key) => batch.batch.has(key)).map(
    (key) => [key, batch.tensor(key).toFloat32Array()] as const,
  );
  const pieces = new Map<number, string>();
  const piece = (id: number): string => {
    let text = pieces.get(id);
    if (text === undefined) {
      text = decode([id], { skipSpecialTokens: false });
      pieces.set(id, text);
    }
    return text;
  };
  return trajectories.map((trajectory, row): RolloutRow => {
    const length = Math.min(trajectory.responseIds.length, width);
    const responseIds = trajectory.responseIds.slice(0, length);
    let score = 0;
    for (let k = 0; k < width; k++) score += scores[row * width + k]!;
    const numbers = (values: ArrayLike<number>): number[] => Array.from(values, (value) => Number(value.toFixed(5)));
    return {
      ...extras[row],
      step,
      uid: trajectory.uid ?? String(rows[row]?.uid ?? ''),
      data_source: String(rows[row]?.data_source ?? ''),
      input: decode(trajectory.promptIds, { skipSpecialTokens: false }),
      output: decode(responseIds, { skipSpecialTokens: false }),
      gts: rows[row]?.reward_model?.ground_truth ?? null,
      score,
      num_turns: trajectory.numTurns,
      end_reason: trajectory.endReason,
      tokens: responseIds.map(piece),
      response_ids: responseIds,
      response_mask: trajectory.responseMask.slice(0, length),
      rollout_log_probs: numbers(trajectory.rolloutLogProbs.slice(0, length)),
      ...Object.fromEntries(
        perToken.map(([key, values]) => [key, numbers(values.subarray(row * width, row * width + length))]),
      ),
    };
  });
}

/** Writes `folder/{step}.jsonl` whole or not at all; a step done again after a resume replaces its file. */
export async function dumpRollouts(folder: string, batch: DataProto, step: number, decode: Decode): Promise<void> {
  await mkdir(folder, { recursive: true });
  const file = path.join(folder, `${step}.jsonl`);
  const lines = rolloutRows(batch, step, decode).map((row) => `${JSON.stringify(row)}\n`);
  await writeFile(`${file}.tmp`, lines.join(''));
  await rename(`${file}.tmp`, file);
}
