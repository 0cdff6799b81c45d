/** Station F on one rank: rows to trajectories, through the agent loops of the configuration or through a program. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { LanguageModelV3 } from '@ai-sdk/provider';
import {
  type AgentBatch,
  type AgentProgram,
  type AgentRow,
  type AgentSetup,
  type CaptureSession,
  type Interaction,
  loadAgentSetup,
  Policy,
  type RewardFunction,
  type RewardValue,
  runAgents,
  runPrograms,
  type Tool,
  type Trajectory,
} from '../agents/index.js';
import type { PolicyLoss } from '../algorithms/index.js';
import { importModule, type PpoConfig, UserError } from '../config/index.js';
import type { Tokenizer } from '../models/tokenizer/index.js';
import type { Engine, SamplingParams } from '../rollout/types.js';
import { PolicyEndpoint, type RolloutAddress } from './policy-endpoint.js';

/** A message that both the AI SDK and OpenAI's client take as it is. */
export type PromptMessage =
  | { role: 'system'; content: string }
  | { role: 'user'; content: string }
  | { role: 'assistant'; content: string };

/** A row of the data as a program sees it, with verl's columns and whatever else the file has. */
export interface TrainedRow {
  /** Typed as nearly all data is; prompts with images or tool messages come through as well. */
  prompt: PromptMessage[];
  /** Empty where the data has none. */
  reward_model: { style?: string; ground_truth?: unknown; [field: string]: unknown };
  extra_info: Record<string, unknown>;
  data_source?: string;
  /** Which of the `rollout.n` runs for this prompt it is, from 0. */
  sampleIndex: number;
  /** The same for all of them. */
  uid: string;
  [column: string]: unknown;
}

/** What a program in training is given besides its row. */
export interface AgentContext extends RolloutAddress {
  /** For the Vercel AI SDK. */
  model: LanguageModelV3;
  /** The name of the model for OpenAI clients; `baseURL` and `apiKey` are this rollout's own. */
  modelName: string;
  /** The recording, for programs that use neither. */
  session: CaptureSession;
  /** Fires when the rollout's time is up. */
  signal: AbortSignal;
}

/**
 * Somebody's agent, trained as it is: what it returns is the reward, one number or several channels whose sum counts.
 * A program that returns nothing is scored by the reward function of the run.
 *
 * @example
 * const agent: TrainedAgent = async (row, { model, signal }) => {
 *   const { text } = await generateText({ model, messages: row.prompt, abortSignal: signal });
 *   return text.endsWith(`#### ${row.reward_model.ground_truth}`) ? 1 : 0;
 * };
 */
export type TrainedAgent = (row: TrainedRow, context: AgentContext) => Promise<RewardValue | undefined> | Promise<void>;

/** What user code adds to a rollout; plain functions, so only workers in this process can have them. */
export interface RolloutExtensions {
  /** Runs instead of the agent loops. */
  agent?: TrainedAgent;
  /** Instead of the loss that the configuration names. */
  policyLoss?: PolicyLoss;
  tools?: readonly Tool[];
  interactions?: readonly Interaction[];
  reward?: RewardFunction;
  /** Called as soon as a trajectory is over, while others still generate. */
  onTrajectory?: (trajectory: Trajectory, row: AgentRow) => void;
}

const MODEL_NAME = 'policy';

export class AgentRollout {
  private resume: (() => void) | null = null;
  private running = 0;

  private constructor(
    readonly policy: Policy,
    private readonly engine: Engine,
    private readonly tokenizer: Tokenizer,
    private readonly setup: AgentSetup,
    private readonly extensions: RolloutExtensions,
    private readonly endpoint: PolicyEndpoint | null,
  ) {}

  /** Loads the files that the configuration names and, for a program, opens its endpoint. */
  static async open(
    config: PpoConfig,
    engine: Engine,
    tokenizer: Tokenizer,
    extensions: RolloutExtensions = {},
  ): Promise<AgentRollout> {
    const agent = extensions.agent ?? (await loadProgram(config));
    const setup = await loadAgentSetup(config);
    const policy = new Policy({ engine, tokenizer, config: setup.config, modelId: MODEL_NAME });
    const endpoint = agent ? await PolicyEndpoint.open({ engine, tokenizer, model: MODEL_NAME }) : null;
    return new AgentRollout(policy, engine, tokenizer, setup, { ...extensions, agent }, endpoint);
  }

  /** Loops give one trajectory per row, in order; a program gives none, one or several (`rowIndex` says whose). */
  async run(
    rows: readonly AgentRow[],
    options: { sampling?: SamplingParams; validate?: boolean },
  ): Promise<AgentBatch> {
    this.running++;
    this.release();
    try {
      return await this.runRows(rows, options);
    } finally {
      this.running--;
      // What comes now is training: whoever outlived its run waits until the policy samples again.
      if (this.running === 0) this.hold();
    }
  }

  private async runRows(
    rows: readonly AgentRow[],
    options: { sampling?: SamplingParams; validate?: boolean },
  ): Promise<AgentBatch> {
    const { engine, tokenizer, setup, extensions } = this;
    if (extensions.agent) return this.runProgram(rows, extensions.agent, options.validate ?? false);
    return runAgents(rows, {
      engine,
      tokenizer,
      config: { ...setup.config, ...(options.sampling ? { sampling: options.sampling } : {}) },
      tools: [...setup.tools, ...(extensions.tools ?? [])],
      interactions: [...setup.interactions, ...(extensions.interactions ?? [])],
      ...(extensions.reward && !options.validate ? { reward: extensions.reward } : {}),
      ...(extensions.onTrajectory ? { onTrajectory: extensions.onTrajectory } : {}),
    });
  }

  /** Calls of programs wait from now on: weights are about to change. They go on with the new ones after `release`. */
  hold(): void {
    this.resume ??= this.policy.hold();
  }

  /** Holds calls while `work` changes the weights; those of programs that run meanwhile go on with the new ones. */
  async duringUpdate(work: () => Promise<void>): Promise<void> {
    this.hold();
    try {
      await work();
    } finally {
      if (this.running > 0) this.release();
    }
  }

  release(): void {
    this.resume?.();
    this.resume = null;
  }

  async close(): Promise<void> {
    this.release();
    await this.endpoint?.close();
    await this.setup.close();
  }

  private async runProgram(rows: readonly AgentRow[], agent: TrainedAgent, validate: boolean): Promise<AgentBatch> {
    const model = this.policy.languageModel();
    const program: AgentProgram = async (row, { session, signal }) => {
      const { close, ...address } = this.endpoint!.addressOf(session);
      try {
        const context = { ...address, model, modelName: MODEL_NAME, session, signal };
        const reward = await agent(trainedRow(row), context);
        return reward as RewardValue | undefined;
      } finally {
        close();
      }
    };
    const { trajectories, metrics, errors } = await runPrograms(this.policy, rows, program, { keepSilent: validate });
    if (errors.length > 0) console.warn(`${errors.length} of ${rows.length} programs failed; first: ${errors[0]}`);
    for (const trajectory of trajectories) {
      // A program that died said nothing about its reward: that is a failure to score, not a response to be graded.
      if (trajectory.error !== undefined && trajectory.rewardScore === null)
        trajectory.rewardError ??= trajectory.error;
      this.extensions.onTrajectory?.(trajectory, rows[trajectory.rowIndex]!);
    }
    return { trajectories, metrics };
  }
}

function trainedRow(row: AgentRow): TrainedRow {
  return { ...row, reward_model: row.reward_model ?? {}, extra_info: row.extra_info ?? {} } as TrainedRow;
}

/** The function that `rollout.agent.program` names. Ranks in other processes load it for themselves. */
async function loadProgram(config: PpoConfig): Promise<TrainedAgent | undefined> {
  const { path: file, name } = config.actor_rollout_ref.rollout.agent.program;
  if (!file) return undefined;
  if (!existsSync(file)) throw new UserError(`rollout.agent.program.path: there is no file ${path.resolve(file)}`);
  const module = await importModule(path.resolve(file));
  const program = module[name ?? 'default'];
  if (typeof program !== 'function')
    throw new UserError(
      `rollout.agent.program.path: ${file} has no function ${name ?? 'as its default export'}; it exports: ${Object.keys(module).join(', ') || 'nothing'}`,
    );
  return program as TrainedAgent;
}
