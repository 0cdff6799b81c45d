import type { ChatMessage, EndReason, Segment, ToolCallRecord, Trajectory, TurnReward } from './types.js';

export interface TrajectoryIdentity {
  id: string;
  rowIndex: number;
  sampleIndex: number;
  uid?: string;
  agentName: string;
  dataSource?: string;
}

/** Writes down tokens the moment they appear. Who produced a token is known here and nowhere later. */
export class TrajectoryRecorder {
  promptIds: number[] = [];
  readonly segments: Segment[] = [];
  readonly toolCalls: ToolCallRecord[] = [];
  readonly turnRewards: TurnReward[] = [];
  readonly rewards: Record<string, number> = {};
  readonly metrics: Record<string, number> = {};
  readonly extraFields: Record<string, unknown> = {};
  readonly timing = { generate_sequences: 0, tool_calls: 0, compute_score: 0 };
  assistantTurns = 0;
  userTurns = 0;
  responseLength = 0;
  private lastSampledIndex = -1;

  constructor(readonly identity: TrajectoryIdentity) {}

  sampled(tokenIds: number[], logProbs: number[], weightVersions: number[]): void {
    if (logProbs.length !== tokenIds.length || weightVersions.length !== tokenIds.length) {
      throw new Error(
        `the engine answered ${tokenIds.length} tokens with ${logProbs.length} log-probs and ` +
          `${weightVersions.length} weight versions: the three must have one length`,
      );
    }
    this.assistantTurns++;
    if (tokenIds.length === 0) return;
    this.segments.push({ kind: 'sampled', turn: this.assistantTurns, tokenIds, logProbs, weightVersions });
    this.responseLength += tokenIds.length;
    this.lastSampledIndex = this.responseLength - 1;
  }

  injected(tokenIds: number[]): void {
    if (tokenIds.length === 0) return;
    this.segments.push({ kind: 'injected', turn: this.assistantTurns, tokenIds });
    this.responseLength += tokenIds.length;
  }

  turnReward(channel: string, value: number): void {
    this.turnRewards.push({ channel, turn: this.assistantTurns, value, tokenIndex: this.lastSampledIndex });
  }

  /** Prompt and response as the model sees them when it goes on. */
  contextIds(): number[] {
    const ids = this.promptIds.slice();
    for (const segment of this.segments) for (const id of segment.tokenIds) ids.push(id);
    return ids;
  }

  build(messages: ChatMessage[], endReason: EndReason, error?: string): Trajectory {
    return {
      ...this.identity,
      promptIds: this.promptIds,
      segments: this.segments,
      ...flattenSegments(this.segments),
      messages,
      assistantTurns: this.assistantTurns,
      userTurns: this.userTurns,
      numTurns: this.userTurns + this.assistantTurns + 1,
      toolCalls: this.toolCalls,
      turnRewards: this.turnRewards,
      rewards: this.rewards,
      rewardScore: sumOrNull(this.rewards),
      endReason,
      ...(error === undefined ? {} : { error }),
      timing: this.timing,
      metrics: this.metrics,
      extraFields: this.extraFields,
    };
  }
}

export function flattenSegments(segments: readonly Segment[]) {
  const responseIds: number[] = [];
  const responseMask: number[] = [];
  const rolloutLogProbs: number[] = [];
  const weightVersions: number[] = [];
  for (const segment of segments) {
    const trained = segment.kind === 'sampled' && !segment.shared;
    segment.tokenIds.forEach((id, index) => {
      responseIds.push(id);
      responseMask.push(trained ? 1 : 0);
      rolloutLogProbs.push(trained ? segment.logProbs[index]! : 0);
      weightVersions.push(segment.kind === 'sampled' ? segment.weightVersions[index]! : -1);
    });
  }
  return { responseIds, responseMask, rolloutLogProbs, weightVersions };
}

export function sumOrNull(channels: Record<string, number>): number | null {
  const values = Object.values(channels);
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
}

/** One row as tensors want it: prompt left-padded, response right-padded. */
export interface PaddedRow {
  prompts: number[];
  responses: number[];
  response_mask: number[];
  attention_mask: number[];
  position_ids: number[];
  rollout_log_probs: number[];
}

export function padTrajectory(
  trajectory: Pick<Trajectory, 'promptIds' | 'responseIds' | 'responseMask' | 'rolloutLogProbs'>,
  shape: { promptLength: number; responseLength: number; padId: number },
): PaddedRow {
  const { promptIds, responseIds, responseMask, rolloutLogProbs } = trajectory;
  const left = shape.promptLength - promptIds.length;
  const right = shape.responseLength - responseIds.length;
  if (left < 0 || right < 0) {
    throw new RangeError(
      `a trajectory of ${promptIds.length} + ${responseIds.length} tokens does not fit into ` +
        `${shape.promptLength} + ${shape.responseLength}: raise max_prompt_length or max_response_length`,
    );
  }
  const zeros = new Array<number>(right).fill(0);
  const attention = [
    ...new Array<number>(left).fill(0),
    ...new Array<number>(promptIds.length + responseIds.length).fill(1),
    ...zeros,
  ];
  let seen = 0;
  return {
    prompts: [...new Array<number>(left).fill(shape.padId), ...promptIds],
    responses: [...responseIds, ...new Array<number>(right).fill(shape.padId)],
    response_mask: [...responseMask, ...zeros],
    attention_mask: attention,
    position_ids: attention.map((bit) => {
      seen += bit;
      return Math.max(seen - 1, 0);
    }),
    rollout_log_probs: [...rolloutLogProbs, ...zeros],
  };
}
