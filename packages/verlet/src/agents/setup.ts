import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import type { PpoConfig } from '../config/index.js';
import type { SamplingParams } from '../rollout/types.js';
import { loadInteractions } from './interactions/config.js';
import type { Interaction } from './interactions/types.js';
import { type AgentLoop, agentLoopNames, registerAgentLoop } from './loops/index.js';
import { loadExport, loadModule } from './modules.js';
import { loadTools } from './tools/config.js';
import type { Tool } from './tools/types.js';
import type { AgentConfigInput, ToolSchema } from './types.js';

/** The part of a training configuration that agents read. */
export type AgentSettings = Pick<PpoConfig, 'data' | 'retriever' | 'max_turns' | 'do_search'> & {
  actor_rollout_ref: { rollout: PpoConfig['actor_rollout_ref']['rollout'] };
};

/** What `runAgents` needs besides rows, engine and tokenizer. */
export interface AgentSetup {
  config: AgentConfigInput;
  tools: Tool[];
  interactions: Interaction[];
  /** Ends what was started for the tools. */
  close(): Promise<void>;
}

/** Reads verl's keys (`rollout.multi_turn`, `rollout.agent`, `retriever`, ...) and loads the files they name. */
export async function loadAgentSetup(settings: AgentSettings): Promise<AgentSetup> {
  const { multi_turn, agent } = settings.actor_rollout_ref.rollout;
  if (agent.agent_loop_config_path) await loadAgentLoops(agent.agent_loop_config_path);
  const interactions = multi_turn.interaction_config_path
    ? await loadInteractions(multi_turn.interaction_config_path)
    : [];
  const functionTools = multi_turn.function_tool_path ? await exportedTools(multi_turn.function_tool_path) : [];
  const { tools, close } = multi_turn.tool_config_path
    ? await loadTools(multi_turn.tool_config_path)
    : { tools: [], close: async () => {} };
  return { config: agentConfigOf(settings), tools: [...tools, ...functionTools], interactions, close };
}

/** The limits and sampling parameters of training rollouts. */
export function agentConfigOf(settings: AgentSettings): AgentConfigInput {
  const { data, retriever, max_turns, do_search } = settings;
  const { rollout } = settings.actor_rollout_ref;
  const { multi_turn, agent } = rollout;
  return {
    defaultAgentLoop: agent.default_agent_loop,
    sampling: samplingOf(rollout),
    maxPromptLength: rollout.prompt_length,
    responseLength: rollout.response_length,
    maxAssistantTurns: multi_turn.max_assistant_turns,
    maxUserTurns: multi_turn.max_user_turns,
    maxToolCalls: multi_turn.max_tool_calls,
    maxParallelCalls: multi_turn.max_parallel_calls,
    toolTimeoutSeconds: multi_turn.tool_timeout,
    trajectoryTimeoutSeconds: agent.trajectory_timeout,
    maxConcurrentTrajectories: agent.max_concurrent_trajectories,
    programSampling: agent.program.sampling,
    maxToolResponseLength: multi_turn.max_tool_response_length,
    toolResponseTruncateSide: multi_turn.tool_response_truncate_side,
    format: multi_turn.format,
    tokenizationSanityCheckMode: multi_turn.tokenization_sanity_check_mode,
    applyChatTemplateKwargs: data.apply_chat_template_kwargs,
    search: {
      url: retriever.url,
      topk: retriever.topk,
      timeoutSeconds: retriever.timeout,
      maxTurns: do_search ? max_turns : 0,
      maxStartLength: data.max_start_length,
      maxObsLength: data.max_obs_length,
    },
  };
}

function samplingOf(rollout: AgentSettings['actor_rollout_ref']['rollout']): SamplingParams {
  const { temperature, top_k, top_p, min_p, repetition_penalty, seed, ignore_eos, do_sample } = rollout;
  return {
    temperature: do_sample ? temperature : 0,
    topK: top_k,
    topP: top_p,
    minP: min_p,
    repetitionPenalty: repetition_penalty,
    seed,
    ignoreEos: ignore_eos,
  };
}

const loopsSchema = z.array(z.looseObject({ name: z.string(), _target_: z.string() }));

/** Registers the loops of verl's agent-loop file: a list of `{ name, _target_: ./module.js#export }`. */
export async function loadAgentLoops(file: string): Promise<void> {
  const parsed = loopsSchema.safeParse(parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file}: ${z.prettifyError(parsed.error)}`);
  for (const { name, _target_ } of parsed.data) {
    const loop = await loadExport(_target_, file);
    if (typeof loop !== 'function') throw new Error(`${file}: ${_target_} must be a function of a session`);
    // A second run in this process reads the same file again.
    if (agentLoopNames().includes(name)) continue;
    registerAgentLoop(name, loop as AgentLoop);
  }
}

/** The tools among the exports of a module, whatever they are called. */
/** What the configured tools look like to a model, for measuring prompts that will carry them. Nothing is left running. */
export async function loadToolSchemas(settings: {
  tool_config_path: string | null;
  function_tool_path: string | null;
}): Promise<ToolSchema[]> {
  const exported = settings.function_tool_path ? await exportedTools(settings.function_tool_path) : [];
  if (!settings.tool_config_path) return exported.map(({ schema }) => schema);
  const { tools, close } = await loadTools(settings.tool_config_path);
  try {
    return [...tools, ...exported].map(({ schema }) => schema);
  } finally {
    await close();
  }
}

async function exportedTools(file: string): Promise<Tool[]> {
  const module = await loadModule(path.resolve(file), file);
  const tools = Object.values(module).filter(isTool);
  if (tools.length === 0)
    throw new Error(`function_tool_path ${file}: no export is a tool; make them with defineTool()`);
  return tools;
}

function isTool(value: unknown): value is Tool {
  const candidate = value as Partial<Tool> | null | undefined;
  return typeof candidate?.execute === 'function' && typeof candidate.schema === 'object';
}
