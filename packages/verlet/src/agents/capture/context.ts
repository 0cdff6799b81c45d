import { AsyncLocalStorage } from 'node:async_hooks';
import type { CaptureSession } from './capture-session.js';

/** Which rollout the running code belongs to. Follows every await, so nested and parallel calls find their own. */
const storage = new AsyncLocalStorage<{ session: CaptureSession; agent?: string }>();

export function runInCapture<T>(session: CaptureSession, work: () => T): T {
  return storage.run({ session }, work);
}

export function currentCapture(): CaptureSession | undefined {
  return storage.getStore()?.session;
}

export function currentAgentName(): string | undefined {
  return storage.getStore()?.agent;
}

/** Labels the calls made inside with the name of a sub-agent. */
export function withAgentName<T>(agent: string, work: () => T): T {
  const store = storage.getStore();
  if (!store)
    throw new Error('withAgentName() outside of a rollout: run the program through runPrograms() or policy.run()');
  return storage.run({ ...store, agent }, work);
}
