import { randomUUID } from 'node:crypto';
import type { LanguageModelV3 } from '@ai-sdk/provider';
import { mapConcurrently } from '../../protocol/map-concurrently.js';
import type { Engine, SamplingParams } from '../../rollout/types.js';
import { TemplateCache } from '../chat-template.js';
import { DeadlineError, messageOf, withDeadline } from '../deadline.js';
import { agentMetrics } from '../metrics.js';
import { applyReward, type RewardValue } from '../rewards.js';
import type { AgentBatch } from '../runner.js';
import type { TrajectoryIdentity } from '../trajectory.js';
import {
  type AgentConfigInput,
  type AgentRow,
  type ChatTokenizer,
  type EndReason,
  resolveAgentConfig,
  type Trajectory,
} from '../types.js';
import { CaptureSession } from './capture-session.js';
import { currentCapture, runInCapture } from './context.js';
import { captureLanguageModel } from './language-model.js';

export interface PolicyOptions {
  engine: Engine;
  tokenizer: ChatTokenizer;
  config?: AgentConfigInput;
  modelId?: string;
}

/** The model in training as other programs see it. */
export class Policy {
  /** Calls that wait for an update to pass. */
  heldCalls = 0;
  private held: { promise: Promise<void>; resume: () => void } | undefined;

  constructor(readonly options: PolicyOptions) {}

  /**
   * A model for the Vercel AI SDK. Calls are attributed to the rollout they are made in.
   *
   * @example
   * const { text } = await generateText({ model: policy.languageModel(), prompt: row.question, tools });
   */
  languageModel(modelId = this.options.modelId ?? 'policy'): LanguageModelV3 {
    return captureLanguageModel(modelId, () => {
      const session = currentCapture();
      if (session) return session;
      throw new Error(
        'the policy was called outside of a rollout: run the program through runPrograms() or policy.run()',
      );
    });
  }

  /** A recording for one rollout: what a server opens behind a base URL, or `run` fills in this process. */
  openSession(
    identity: Partial<TrajectoryIdentity> = {},
    sampling: SamplingParams = {},
    templateCache = new TemplateCache(),
  ): CaptureSession {
    const { engine, tokenizer, config } = this.options;
    return new CaptureSession({
      engine,
      tokenizer,
      identity,
      templateCache,
      config: { ...config, sampling: { ...config?.sampling, ...sampling } },
      gate: (signal) => this.passed(signal),
    });
  }

  /** Runs code inside a rollout: every call to `languageModel()` made in it, however deep, is recorded in the session. */
  run<T>(session: CaptureSession, work: () => T): T {
    return runInCapture(session, work);
  }

  /** When calls may go on. A caller that goes away meanwhile, or whose time is up, is not kept waiting. */
  private async passed(signal?: AbortSignal): Promise<void> {
    while (this.held) {
      signal?.throwIfAborted();
      const { promise } = this.held;
      this.heldCalls++;
      await new Promise<void>((resolve) => {
        const goOn = () => {
          signal?.removeEventListener('abort', goOn);
          resolve();
        };
        signal?.addEventListener('abort', goOn, { once: true });
        void promise.then(goOn);
      });
      this.heldCalls--;
    }
  }

  /** Lets new calls wait (weights are being updated) until the returned function is called. */
  hold(): () => void {
    if (!this.held) {
      let resume = () => {};
      const promise = new Promise<void>((resolve) => {
        resume = resolve;
      });
      this.held = { promise, resume };
    }
    const { resume } = this.held;
    return () => {
      this.held = undefined;
      resume();
    };
  }
}

export interface ProgramContext {
  session: CaptureSession;
  signal: AbortSignal;
}

/** Somebody's agent. What it returns is the reward of the rollout: a number, channels, or nothing. */
export type AgentProgram = (row: AgentRow, context: ProgramContext) => Promise<RewardValue | undefined> | Promise<void>;

/** Metrics of `runPrograms` that count runs: those of several batches add up. */
export const PROGRAM_COUNTS = ['agent/programs', 'agent/program_errors', 'agent/programs_without_calls'] as const;

export interface ProgramBatch extends AgentBatch {
  /** What the programs that failed said, with their rows. */
  errors: string[];
}

export interface ProgramOptions {
  signal?: AbortSignal;
  agentName?: string;
  /**
   * Rows whose program never asked the policy get a trajectory without a response: nothing to learn from, but a result that
   * validation has to count.
   */
  keepSilent?: boolean;
}

/**
 * Runs a program once per row, all at the same time, and returns what was recorded. A row gives one trajectory, or several
 * when its program talked in separate conversations; all of them carry the program's reward.
 */
export async function runPrograms(
  policy: Policy,
  rows: readonly AgentRow[],
  program: AgentProgram,
  options: ProgramOptions = {},
): Promise<ProgramBatch> {
  const { maxConcurrentTrajectories, trajectoryTimeoutSeconds } = resolveAgentConfig(policy.options.config);
  // Programs of one batch begin with the same prompts, tools and template.
  const templateCache = new TemplateCache();
  const groups = await mapConcurrently(rows, maxConcurrentTrajectories, (row, rowIndex) =>
    runProgram({ policy, row, rowIndex, program, seconds: trajectoryTimeoutSeconds, templateCache }, options),
  );
  const trajectories = groups.flatMap((group) => group.trajectories);
  const failed = groups.filter(({ error }) => error !== undefined);
  const silent = groups.filter(({ isSilent }) => isSilent);
  const counts: Record<(typeof PROGRAM_COUNTS)[number], number> = {
    'agent/programs': groups.length,
    'agent/program_errors': failed.length,
    'agent/programs_without_calls': silent.length,
  };
  return {
    trajectories,
    metrics: { ...agentMetrics(trajectories), ...counts },
    errors: failed.map(({ error }) => error!),
  };
}

interface ProgramRun {
  policy: Policy;
  row: AgentRow;
  rowIndex: number;
  program: AgentProgram;
  seconds: number;
  templateCache: TemplateCache;
}

async function runProgram(
  { policy, row, rowIndex, program, seconds, templateCache }: ProgramRun,
  { signal, agentName = 'program', keepSilent = false }: ProgramOptions,
): Promise<{ trajectories: Trajectory[]; isSilent: boolean; error?: string }> {
  const identity = {
    id: randomUUID(),
    rowIndex,
    sampleIndex: row.sampleIndex ?? rowIndex,
    agentName,
    ...(row.uid === undefined ? {} : { uid: row.uid }),
    ...(row.data_source === undefined ? {} : { dataSource: row.data_source }),
  };
  const session = policy.openSession(identity, row.sampling, templateCache);
  const finish = () => {
    const recorded = session.finish();
    const isSilent = recorded.length === 0;
    return { isSilent, trajectories: isSilent && keepSilent ? [session.silentTrajectory(row.prompt)] : recorded };
  };
  try {
    const work = (deadline: AbortSignal): Promise<unknown> =>
      policy.run(session, () => program(row, { session, signal: deadline }));
    const reward = await withDeadline('the program', seconds, work, signal);
    const { trajectories, isSilent } = finish();
    for (const trajectory of trajectories) score(trajectory, reward);
    return { trajectories, isSilent };
  } catch (error) {
    const message = messageOf(error);
    const { trajectories, isSilent } = finish();
    const endReason = signal?.aborted ? 'abort' : endReasonOf(error, isSilent);
    const failed = trajectories.map((trajectory): Trajectory => ({ ...trajectory, endReason, error: message }));
    return { trajectories: failed, isSilent, error: `row ${rowIndex}: ${message}` };
  }
}

/** A conversation that outgrew its limits is another thing than a defect of the program, whichever client reports it. */
function endReasonOf(error: unknown, isSilent: boolean): EndReason {
  if (error instanceof DeadlineError) return 'timeout';
  for (let at = error, depth = 0; at instanceof Error && depth < 5; depth++) {
    if ((at as { code?: unknown }).code === 'context_length_exceeded')
      return isSilent ? 'prompt_length' : 'response_length';
    // The AI SDK wraps what it tried again, others give a cause.
    at = (at as { lastError?: unknown }).lastError ?? at.cause;
  }
  return 'error';
}

function score(trajectory: Trajectory, reward: unknown): void {
  if (reward === undefined) return;
  try {
    applyReward(trajectory, reward as RewardValue);
  } catch (error) {
    trajectory.rewardError = messageOf(error);
  }
}
