/** Bring your own agent: programs that talk to the policy as to any other model are recorded token by token. */
export { CaptureSession, type CaptureSessionOptions } from './capture-session.js';
export { currentCapture, runInCapture, withAgentName } from './context.js';
export { captureLanguageModel } from './language-model.js';
export {
  type AgentProgram,
  Policy,
  type PolicyOptions,
  PROGRAM_COUNTS,
  type ProgramBatch,
  type ProgramContext,
  type ProgramOptions,
  runPrograms,
} from './policy.js';
export {
  type CapturedToolCall,
  type ChatCall,
  type ChatResult,
  ContextOverflowError,
  RolloutOverError,
  type RunningChat,
} from './types.js';
