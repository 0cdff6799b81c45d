/**
 * Runs programs that a model wrote, away from this process, the network and the user's files. `createSandbox` picks the
 * strongest level that works on this machine; docs/sandbox.md says what each level stops and what it does not.
 */
export { createSandbox, describeSandbox, installCommand, type SandboxOptions } from './create.js';
export type { RemoteSandboxOptions } from './remote.js';
export * from './types.js';
