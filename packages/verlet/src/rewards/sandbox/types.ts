/** What a sandbox is asked and what it answers. No file here runs anything. */

export type Language = 'python' | 'javascript';

/** `remote` is an external service, `bubblewrap` a Linux namespace box, `wasm` an interpreter compiled to WebAssembly. */
export type SandboxLevel = 'remote' | 'bubblewrap' | 'wasm';

export interface Limits {
  /** Wall-clock milliseconds for the whole program. */
  timeoutMs: number;
  /** Memory of all processes of the program together. */
  memoryMb: number;
  /** Bytes of stdout and of stderr, each. */
  outputBytes: number;
  /** Processes and threads at one time (bubblewrap level; WebAssembly has neither). */
  processes: number;
  /** Largest file the program may write, in the box's private /tmp. */
  fileMb: number;
}

// 1024 MB is verl's sandbox_fusion.memory_limit_mb; 5 s its prime_code time limit.
export const defaultLimits: Limits = {
  timeoutMs: 5_000,
  memoryMb: 1_024,
  outputBytes: 1 << 20,
  processes: 32,
  fileMb: 16,
};

export interface Program {
  language: Language;
  code: string;
  stdin?: string;
  /**
   * Assert-style test source in the same language. It runs in a second box that the program never enters; only calls of
   * the program's functions cross over, and only plain data comes back.
   */
  tests?: string;
  /** Call one function (or method of `Solution`) and return its value in `SandboxResult.value`. */
  call?: { name: string; args: PlainValue[] };
  limits?: Partial<Limits>;
}

/** Data without behaviour: what may leave a box. Tuples arrive as arrays, Python dicts as Maps. */
export type PlainValue =
  | null
  | undefined
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PlainValue[]
  | Set<PlainValue>
  | Map<PlainValue, PlainValue>
  | { [key: string]: PlainValue };

/**
 * - `ok`: ended by itself with exit code 0 (and every test passed, where tests were given)
 * - `error`: a non-zero exit, an uncaught error, a failed test
 * - `timeout`, `memory`, `output-limit`: went over that limit and was killed
 * - `killed`: died of a signal, or took the whole box down with it
 */
export type SandboxStatus = 'ok' | 'error' | 'timeout' | 'memory' | 'output-limit' | 'killed';

export interface SandboxResult {
  status: SandboxStatus;
  stdout: string;
  stderr: string;
  /** Negative: the signal that ended it. `null`: never known (the box was killed). */
  exitCode: number | null;
  durationMs: number;
  /** Present when `call` was given and the function returned. */
  value?: PlainValue;
}

export interface LevelDescription {
  level: SandboxLevel | 'none';
  /** One sentence for `verlet doctor`. */
  detail: string;
  /** Why stronger levels are not in use. */
  reasons: string[];
}

export interface SandboxDescription {
  python: LevelDescription;
  javascript: LevelDescription;
  /** Set when bubblewrap is not in use: the command that installs it here. */
  installCommand?: string;
}

export interface Sandbox {
  run(program: Program): Promise<SandboxResult>;
  /** Results in the order of the programs; as many run at one time as the pool has boxes. */
  runBatch(programs: readonly Program[]): Promise<SandboxResult[]>;
  describe(): SandboxDescription;
  /** Kills every box. Programs still running end as `killed`. */
  close(): Promise<void>;
}

export class SandboxUnavailableError extends Error {
  override readonly name = 'SandboxUnavailableError';
}

/** The sandbox itself failed (not the program): no verdict about the program can be given. */
export class SandboxFailure extends Error {
  override readonly name = 'SandboxFailure';
}
