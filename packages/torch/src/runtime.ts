/** The machine as libtorch sees it. */
import { type BuildInfo, native } from './native.js';

export function buildInfo(): BuildInfo {
  return native.buildInfo();
}

/** Number of threads that one operator may use. */
export function getThreads(): number {
  return native.threads();
}

export function setThreads(count: number): void {
  native.threads(count);
}

/** Refuse operators that may give different results from run to run (a warning where libtorch has nothing else). */
export function setDeterministic(enabled: boolean): void {
  native.setDeterministic(enabled);
}

export function isCudaAvailable(): boolean {
  return native.buildInfo().cudaAvailable;
}
