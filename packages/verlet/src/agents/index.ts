/**
 * Agents: loops over a session, tools, interactions, tasks and search, and programs of others, recorded token by token.
 * `runAgents` runs rows through loops; `runPrograms` runs your own agent; both give trajectories.
 */
export * from './capture/index.js';
export { IncrementalChatTemplate, type TurnEnd } from './chat-template.js';
export { DeadlineError, withDeadline } from './deadline.js';
export * from './interactions/index.js';
export * from './loops/index.js';
export { agentMetrics, type Metrics as AgentMetrics } from './metrics.js';
export {
  applyReward,
  type RewardFunction,
  type RewardMode,
  type RewardValue,
  type RewardWeights,
  rewardChannels,
  tokenLevelScores,
  totalScore,
} from './rewards.js';
export { type AgentBatch, type RunAgentsOptions, runAgents } from './runner.js';
export * from './search/index.js';
export { type AssistantTurn, Session, TrajectoryEnded } from './session.js';
export {
  type AgentSettings,
  type AgentSetup,
  agentConfigOf,
  loadAgentLoops,
  loadAgentSetup,
  loadToolSchemas,
} from './setup.js';
export * from './tasks/index.js';
export * from './tools/index.js';
export { flattenSegments, type PaddedRow, padTrajectory, TrajectoryRecorder } from './trajectory.js';
export * from './types.js';
