import { UserError } from '../config/errors.js';

/** The vocabulary of rewards: what a reward function is given, what it may answer, what a manager returns. */

export interface RewardMessage {
  role: string;
  content: unknown;
  [key: string]: unknown;
}

/** Score of one turn of a conversation, placed on a token of the response. */
export interface TurnScore {
  /** Index into the response tokens. */
  readonly tokenPosition: number;
  readonly score: number;
}

/**
 * Everything that is known about one finished sample, under verl's names. What is costly to compute (log-probs of a
 * second pass, entropies, the decoded conversation) may be a getter that works when it is first read: see
 * `createRewardInput`. Only the text of the response is graded by the built-in scores, never the prompt.
 */
export interface RewardInput {
  data_source: string;
  /** The response as text, special tokens removed. */
  solution_str: string;
  /** `reward_model.ground_truth` of the row. */
  ground_truth: unknown;
  extra_info: Record<string, unknown>;
  /** The prompt as chat messages. */
  prompt?: readonly RewardMessage[];
  /** The whole conversation: prompt, assistant turns, tool results. */
  messages?: readonly RewardMessage[];
  prompt_ids?: ArrayLike<number>;
  /** Response tokens without padding, tool and user tokens included. */
  response_ids?: ArrayLike<number>;
  /** 1 where the model produced the token, 0 where a tool, a user or a template did. */
  response_mask?: ArrayLike<number>;
  /** Per response token, as sampled. */
  rollout_log_probs?: ArrayLike<number>;
  /** Per response token, recomputed by the trainer before the update. */
  log_probs?: ArrayLike<number>;
  /** Per response token, of the reference policy. */
  ref_log_prob?: ArrayLike<number>;
  /** Per response token, of the sampling distribution. */
  entropy?: ArrayLike<number>;
  /** Scores that tools, environments or interactions gave while the sample was produced. */
  turn_scores?: readonly TurnScore[];
  num_turns?: number;
  /** Samples of one prompt share it. */
  uid?: string;
  /** Any further column of the row or field of the agent loop. */
  [key: string]: unknown;
}

type Lazy<T> = { [K in keyof T]?: () => T[K] };

/** A reward input whose `lazy` fields are computed when (and only if) a reward function reads them, once. */
export function createRewardInput(
  fields: Pick<RewardInput, 'data_source' | 'solution_str' | 'ground_truth'> & Partial<RewardInput>,
  lazy: Lazy<Omit<RewardInput, never>> = {},
): RewardInput {
  const input: RewardInput = { extra_info: {}, ...fields };
  for (const [key, compute] of Object.entries(lazy) as [string, () => unknown][]) {
    Object.defineProperty(input, key, {
      enumerable: true,
      configurable: true,
      get() {
        const value = compute();
        Object.defineProperty(input, key, { value, enumerable: true, configurable: true, writable: true });
        return value;
      },
    });
  }
  return input;
}

export type RewardExtra = number | string | boolean;

/** A number; verl's `{score, ...}`; or EasyR1's `{overall, ...}`. The other keys become metrics. */
export type RewardResult =
  | number
  | boolean
  | ({ score: number } & Record<string, unknown>)
  | ({ overall: number } & Record<string, unknown>);

/** A response to be scored behind a prompt, which need not be the one it was sampled from. */
export interface PolicyQuery {
  promptIds: ArrayLike<number>;
  responseIds: ArrayLike<number>;
  /** 1 where a token is to be scored; all of them if not given. */
  responseMask?: ArrayLike<number>;
}

/** Per response token, under the policy as it is now; 0 where a token was not to be scored. */
export interface PolicyScores {
  logProbs: Float32Array;
  entropy: Float32Array;
}

/** What the trainer can do for a reward beyond what a sample says about itself. */
export interface RewardContext {
  /** Scores all queries in one pass of the current policy, the same pass that gives `log_probs`. */
  scorePolicy(queries: readonly PolicyQuery[]): Promise<PolicyScores[]>;
  /** Chat messages as the policy's prompt tokens, up to where its answer begins. */
  encodePrompt(messages: readonly RewardMessage[]): ArrayLike<number>;
  /** Tokens as text, special ones left out. */
  decode(ids: ArrayLike<number>): string;
}

/** Scores one sample. `options` are `reward_kwargs` (or the options of a built-in score). */
export type RewardFunction = (
  input: RewardInput,
  options: Record<string, unknown>,
  context: RewardContext,
) => RewardResult | Promise<RewardResult>;

/** Scores a whole batch in one call. */
export type BatchRewardFunction = (
  inputs: readonly RewardInput[],
  options: Record<string, unknown>,
  context: RewardContext,
) => readonly RewardResult[] | Promise<readonly RewardResult[]>;

/** What a manager says about one sample; the trainer puts it onto tensors. */
export interface ScoredSample {
  score: number;
  extras: Record<string, RewardExtra>;
  /** The last valid response token, where the score belongs; -1 when the response is empty and there is no such token. */
  tokenPosition: number;
  /** Scores of single turns, in addition to `score`; only hybrid managers set it. */
  turnScores?: readonly TurnScore[];
  /** Set when the reward could not be computed; `score` is then the configured error score. */
  error?: string;
}

/** Turns finished samples into scores. One result per sample, in order. */
export interface RewardManager {
  readonly name: string;
  score(samples: readonly RewardInput[]): Promise<ScoredSample[]>;
  /** Ends workers, processes and connections. */
  close(): Promise<void>;
}

/** A reward could not be computed. */
export class RewardError extends UserError {
  override name = 'RewardError';
}

function absent(name: string): never {
  throw new RewardError(`${name} needs the policy: there is one in training, in this process, and not here`);
}

/** The context where nothing is being trained: in `verlet reward test`, in scoring threads. */
export const withoutPolicy: RewardContext = {
  scorePolicy: async () => absent('scorePolicy'),
  encodePrompt: () => absent('encodePrompt'),
  decode: () => absent('decode'),
};

/** Scores texts with a sequence-classification model; the trainer plugs in the model it holds. */
export interface RewardModel {
  readonly name: string;
  /** One scalar per conversation; the last message is the response. */
  scoreConversations(conversations: readonly (readonly RewardMessage[])[]): Promise<number[]>;
}
