import { gsm8kTask } from './gsm8k.js';
import { genChatTask, sweTask } from './http-environment.js';
import type { Task } from './types.js';

const tasks = new Map<string, Task>();

export function registerTask<State>(task: Task<State>): void {
  if (tasks.has(task.name)) throw new Error(`a task named ${JSON.stringify(task.name)} is already registered`);
  tasks.set(task.name, task as Task);
}

export function taskType(name: string): Task {
  const task = tasks.get(name);
  if (!task) throw new Error(`no task type ${JSON.stringify(name)}; there are: ${[...tasks.keys()].join(', ')}`);
  return task;
}

registerTask(gsm8kTask);
registerTask(sweTask);
registerTask(genChatTask);
