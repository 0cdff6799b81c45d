import { randomBytes } from 'node:crypto';
import { decodePlain, type Encoded, encodePlain } from './plain-value.js';
import { pythonHarness } from './python-harness.js';
import {
  type Limits,
  type PlainValue,
  type Program,
  SandboxFailure,
  type SandboxResult,
  type SandboxStatus,
} from './types.js';

export interface RemoteSandboxOptions {
  /** The address of the service's run endpoint, e.g. `http://127.0.0.1:8080/run_code`. */
  url: string;
  /** Requests in flight at one time (verl's sandbox_fusion.max_concurrent). */
  maxConcurrent?: number;
  /** Tries per program before it counts as a failure of the service. */
  attempts?: number;
  /** Added to the program's own time limit for queueing and transport. */
  overheadMs?: number;
  /** Wait before the second try; doubles with each further one. */
  backoffMs?: number;
  headers?: Record<string, string>;
}

/** SandboxFusion's answer to POST /run_code. */
interface RunCodeAnswer {
  status?: 'Success' | 'Failed' | 'SandboxError';
  message?: string;
  compile_result?: RunResult | null;
  run_result?: RunResult | null;
}

interface RunResult {
  status?: 'Finished' | 'Error' | 'TimeLimitExceeded';
  execution_time?: number | null;
  return_code?: number | null;
  stdout?: string | null;
  stderr?: string | null;
}

const languageNames = { python: 'python', javascript: 'nodejs' } as const;

/** Runs programs in an external service with SandboxFusion's contract. Isolation is then the service's promise. */
export class RemoteRunner {
  readonly #options: Required<RemoteSandboxOptions>;
  readonly #waiting: (() => void)[] = [];
  #inFlight = 0;

  constructor(options: RemoteSandboxOptions) {
    this.#options = { maxConcurrent: 64, attempts: 3, overheadMs: 10_000, backoffMs: 500, headers: {}, ...options };
  }

  async run(program: Program, limits: Limits): Promise<SandboxResult> {
    if (program.tests !== undefined) {
      // One request is one process there: the program could end it before an assert runs, and look like a success.
      throw new SandboxFailure(
        'assert tests need a sandbox level that keeps them apart from the program (bubblewrap or wasm); ' +
          'with a remote service use stdin/stdout tests or function calls',
      );
    }
    const marker = randomBytes(16).toString('hex');
    const code = program.call ? withCall(program, program.call, marker) : program.code;
    const answer = await this.#whenFree(() => this.#request({ ...program, code }, limits));
    const result = this.#read(answer, limits);
    return program.call ? extractValue(result, marker) : result;
  }

  async #whenFree<T>(work: () => Promise<T>): Promise<T> {
    if (this.#inFlight >= this.#options.maxConcurrent)
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#inFlight += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#inFlight -= 1;
    }
  }

  async #request(program: Program, limits: Limits): Promise<RunCodeAnswer> {
    const { url, attempts, overheadMs, backoffMs, headers } = this.#options;
    const seconds = limits.timeoutMs / 1_000;
    const body = JSON.stringify({
      code: program.code,
      language: languageNames[program.language],
      stdin: program.stdin ?? '',
      compile_timeout: seconds,
      run_timeout: seconds,
      memory_limit_MB: limits.memoryMb,
      files: {},
      fetch_files: [],
    });
    let problem = '';
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      if (attempt > 1) await new Promise((resolve) => setTimeout(resolve, backoffMs * 2 ** (attempt - 2)));
      try {
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body,
          signal: AbortSignal.timeout(2 * limits.timeoutMs + overheadMs),
        });
        if (response.ok) {
          const answer = (await response.json()) as RunCodeAnswer;
          if (answer.status !== 'SandboxError') return answer;
          problem = `the service reports a fault of its own: ${answer.message ?? ''}`;
          continue;
        }
        problem = `HTTP ${response.status}: ${(await response.text()).slice(0, 300)}`;
        // The request itself is wrong; sending it again changes nothing.
        if (response.status < 500 && response.status !== 429 && response.status !== 408) break;
      } catch (error) {
        problem = error instanceof Error ? `${error.message}${error.cause ? ` (${error.cause})` : ''}` : String(error);
      }
    }
    throw new SandboxFailure(`sandbox service ${url} gave no result after ${attempts} attempts: ${problem}`);
  }

  #read(answer: RunCodeAnswer, limits: Limits): SandboxResult {
    const compile = answer.compile_result;
    const ran = compile && compile.status !== 'Finished' ? compile : (answer.run_result ?? compile);
    if (!ran)
      throw new SandboxFailure(`sandbox service answered without a run_result: ${answer.message ?? answer.status}`);
    const [stdout, stderr] = [ran.stdout ?? '', ran.stderr ?? ''];
    const exitCode = ran.return_code ?? null;
    let status: SandboxStatus =
      answer.status === 'Success' && ran.status === 'Finished' && exitCode === 0 ? 'ok' : 'error';
    if (ran.status === 'TimeLimitExceeded') status = 'timeout';
    else if (status === 'error' && /MemoryError\s*$|heap out of memory/.test(stderr)) status = 'memory';
    const tooLong = Math.max(Buffer.byteLength(stdout), Buffer.byteLength(stderr)) > limits.outputBytes;
    return {
      status: tooLong ? 'output-limit' : status,
      stdout: stdout.slice(0, limits.outputBytes),
      stderr: stderr.slice(0, limits.outputBytes),
      exitCode,
      durationMs: (ran.execution_time ?? 0) * 1_000,
    };
  }
}

/** The program with a last line that calls its function and prints the value behind a marker. The comparison happens here. */
function withCall(program: Program, call: NonNullable<Program['call']>, marker: string): string {
  if (program.language !== 'python') {
    const args = call.args.map((arg) => JSON.stringify(arg)).join(', ');
    return `${program.code}\n;process.stdout.write('\\n${marker}' + JSON.stringify({ plain: ${call.name}(${args}) }) + '\\n');\n`;
  }
  const request = JSON.stringify({ do: 'call', h: null, name: call.name, args: call.args.map(encodePlain) });
  return `${pythonHarness}
_lines = iter([${pythonString(request)}])
_serve(${pythonString(program.code)}, lambda: next(_lines, None), lambda text: print('\\n${marker}' + text, flush=True))
`;
}

/** JSON's string escapes are a subset of Python's. */
const pythonString = (text: string) => JSON.stringify(text).replaceAll('\u007f', '\\u007f');

function extractValue(result: SandboxResult, marker: string): SandboxResult {
  const lines = result.stdout.split('\n');
  const marked = lines.filter((line) => line.startsWith(marker)).map((line) => line.slice(marker.length));
  const stdout = lines.filter((line) => !line.startsWith(marker)).join('\n');
  const last = marked.at(-1);
  if (result.status !== 'ok' || last === undefined)
    return { ...result, stdout, status: result.status === 'ok' ? 'error' : result.status };
  try {
    const answer: { value?: Encoded; plain?: PlainValue } = JSON.parse(last);
    // The first marked line of a Python program lists its names: a program that ended after it has not answered.
    if ('value' in answer) return { ...result, stdout, value: decodePlain(answer.value ?? null) };
    if ('plain' in answer) return { ...result, stdout, value: answer.plain };
    return { ...result, stdout, status: 'error' };
  } catch {
    return { ...result, stdout, status: 'error' };
  }
}
