/** Bring your own agent: programs that talk to the policy as to any other model are recorded token by token. */
export { CaptureSession, type CaptureSessionOptions } from './capture-session.js';
export { currentCapture, runInCapture, withAgentName } from './context.js';
export { captureLanguageModel } from './language-model.js';
export {
  type AgentProgram,
  Policy,
  type PolicyOptions,
  type ProgramBatch,
  type ProgramContext,
  runPrograms,
} from './policy.js';
export {
  type CapturedToolCall,
  type ChatCall,
  type ChatResult,
  ContextOverflowError,
  type RunningChat,
} from './types.js';
