import { DeadlineError, messageOf, withDeadline } from '../deadline.js';
import type { AgentConfig, AgentRow, ToolCallRecord, ToolCallStatus, ToolKwargs } from '../types.js';
import { toolOutput } from './define-tool.js';
import type { ParsedToolCall } from './parsers/types.js';
import { truncateToolResponse } from './truncate.js';
import { type Tool, type ToolContext, ToolUnavailableError } from './types.js';

export type ToolboxConfig = Pick<
  AgentConfig,
  'toolTimeoutSeconds' | 'maxToolResponseLength' | 'toolResponseTruncateSide'
>;

/** The tools of one trajectory: made at the first call, released at the end, and never the reason for a crash. */
export class Toolbox {
  private readonly tools: Map<string, Tool>;
  private readonly live = new Map<string, { tool: Tool; state: Promise<unknown> }>();

  constructor(
    tools: readonly Tool[],
    private readonly instanceId: string,
    private readonly row: AgentRow,
    private readonly config: ToolboxConfig,
  ) {
    this.tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  /** Runs a call; whatever happens, the answer is a text for the model and a record of how it went. */
  async call(call: ParsedToolCall, turn: number, signal: AbortSignal): Promise<ToolCallRecord> {
    const started = performance.now();
    const { status, text, reward, metrics } = await this.execute(call, signal);
    const response = truncateToolResponse(
      text,
      this.config.maxToolResponseLength,
      this.config.toolResponseTruncateSide,
    );
    return {
      id: call.id,
      name: call.name,
      arguments: call.arguments,
      status,
      turn,
      response: response.text,
      truncated: response.truncated,
      reward: reward ?? null,
      seconds: (performance.now() - started) / 1000,
      ...(metrics ? { metrics } : {}),
    };
  }

  /** Last rewards of the tools that were used; a tool that fails here is reported through `onError`. */
  async finalRewards(onError: (tool: string, error: string) => void): Promise<Record<string, number>> {
    const rewards: Record<string, number> = {};
    await this.forEachLive('reward', onError, async (tool, context) => {
      if (tool.reward) rewards[tool.name] = await tool.reward(context);
    });
    return rewards;
  }

  async release(onError: (tool: string, error: string) => void): Promise<void> {
    await this.forEachLive('release', onError, async (tool, context) => tool.release?.(context));
    this.live.clear();
  }

  private async execute(
    call: ParsedToolCall,
    signal: AbortSignal,
  ): Promise<{ status: ToolCallStatus; text: string; reward?: number; metrics?: Record<string, number> }> {
    const tool = this.tools.get(call.name);
    if (!tool) return { status: 'unknown_tool', text: this.unknownToolText(call.name), reward: 0 };
    try {
      const checked = (await tool.check?.(call.arguments)) ?? { ok: true, value: call.arguments };
      if (!checked.ok) {
        const text = `Error: invalid arguments for ${call.name}: ${checked.issues.join('; ')}`;
        return { status: 'invalid_arguments', text, reward: 0 };
      }
      const output = await withDeadline(
        `tool ${tool.name}`,
        tool.timeoutSeconds ?? this.config.toolTimeoutSeconds,
        async (deadline) => {
          const state = await this.stateOf(tool, deadline);
          return tool.execute(checked.value, this.context(tool, 'execute_kwargs', deadline, state));
        },
        signal,
      );
      return { status: 'ok', ...toolOutput(output) };
    } catch (error) {
      const status =
        error instanceof DeadlineError ? 'timeout' : error instanceof ToolUnavailableError ? 'unavailable' : 'error';
      return { status, text: `Error: ${messageOf(error)}`, reward: 0 };
    }
  }

  private stateOf(tool: Tool, signal: AbortSignal): Promise<unknown> {
    let entry = this.live.get(tool.name);
    if (!entry) {
      const context = this.context(tool, 'create_kwargs', signal, undefined);
      entry = { tool, state: Promise.resolve().then(() => tool.create?.(context)) };
      this.live.set(tool.name, entry);
      // A failed start is tried again by the next call instead of failing the tool for the whole trajectory.
      entry.state.catch(() => this.live.delete(tool.name));
    }
    return entry.state;
  }

  private async forEachLive(
    stage: 'reward' | 'release',
    onError: (tool: string, error: string) => void,
    work: (tool: Tool, context: ToolContext) => Promise<void>,
  ): Promise<void> {
    const key = stage === 'reward' ? 'calc_reward_kwargs' : 'release_kwargs';
    await Promise.all(
      [...this.live.values()].map(async ({ tool, state }) => {
        if (!tool[stage]) return;
        try {
          await withDeadline(`${stage} of tool ${tool.name}`, this.config.toolTimeoutSeconds, async (signal) =>
            work(tool, this.context(tool, key, signal, await state)),
          );
        } catch (error) {
          onError(tool.name, messageOf(error));
        }
      }),
    );
  }

  private context(tool: Tool, key: keyof ToolKwargs, signal: AbortSignal, state: unknown): ToolContext {
    const kwargs = this.row.tools_kwargs?.[tool.name]?.[key] ?? {};
    return { instanceId: this.instanceId, row: this.row, signal, kwargs, state };
  }

  private unknownToolText(name: string): string {
    const known = [...this.tools.keys()];
    const offer = known.length > 0 ? `the tools are: ${known.join(', ')}` : 'there are no tools here';
    return `Error: there is no tool named ${JSON.stringify(name)}; ${offer}`;
  }
}
