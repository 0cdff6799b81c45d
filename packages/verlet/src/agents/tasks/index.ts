/** Task types: start, observe and end hooks around the one loop, chosen per row by `task_type`. */
export { gsm8kTask } from './gsm8k.js';
export { genChatTask, type HttpEnvironmentOptions, httpEnvironment, sweTask } from './http-environment.js';
export { runTask, taskAgent } from './loop.js';
export { registerTask, taskType } from './registry.js';
export type { Observation, Task, TaskResult } from './types.js';
