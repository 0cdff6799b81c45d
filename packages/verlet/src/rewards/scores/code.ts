import {
  createSandbox,
  type Language,
  type Limits,
  type PlainValue,
  type Program,
  type Sandbox,
  type SandboxOptions,
} from '../sandbox/index.js';
import { RewardError, type RewardInput } from '../types.js';
import { isSameOutput, isSameValue } from './code-comparison.js';

export interface CodeScoreOptions {
  /** Where programs run; one shared by all scores of this process if not given. */
  sandbox?: Sandbox;
  /** Not all tests passed: the share of the first ten instead of 0. */
  continuous?: boolean;
  language?: Language;
  limits?: Partial<Limits>;
}

/** verl's test cases: stdin/stdout pairs, function calls when `fn_name` is there, or assert statements. */
export interface CodeTests {
  inputs: unknown[];
  outputs: unknown[];
  fn_name?: string;
  asserts: string[];
  language?: Language;
}

export interface CodeScore {
  [key: string]: unknown;
  score: number;
  passed: number;
  tests: number;
  /** Why the first failed test failed: `wrong answer`, or the status of the sandbox. Empty when none did. */
  failure: string;
}

/** verl looks at ten tests when it gives partial credit: some problems have hundreds. */
const partialTests = 10;

/**
 * prime_code. The program never sees an expected output and the comparison is made here, so there is nothing in its reach to
 * tamper with: it can only produce the right answer, or not.
 */
export async function primeCode(input: RewardInput, options: CodeScoreOptions = {}): Promise<CodeScore> {
  const tests = parseCodeTests(input.ground_truth);
  const { code, language: fenced } = extractCode(input.solution_str);
  const language = options.language ?? tests.language ?? fenced ?? 'python';
  const sandbox = options.sandbox ?? (await sharedSandbox());
  const checks = planChecks(tests, { language, code, limits: options.limits });
  if (code.trim() === '') return { score: 0, passed: 0, tests: checks.length, failure: 'no code' };

  const first = checks.slice(0, partialTests);
  const failures = await Promise.all(first.map((check) => check(sandbox)));
  const passed = failures.filter((failure) => failure === '').length;
  const verdict = { tests: checks.length, failure: failures.find((failure) => failure !== '') ?? '' };
  if (passed < first.length) {
    return { score: (options.continuous ?? true) ? passed / first.length : 0, passed, ...verdict };
  }
  for (let at = partialTests; at < checks.length; at += partialTests) {
    const more = await Promise.all(checks.slice(at, at + partialTests).map((check) => check(sandbox)));
    const failure = more.find((text) => text !== '');
    // verl's partial credit counts the first ten only, so a program that fails later keeps 10/10 in continuous mode.
    if (failure !== undefined) {
      return {
        score: (options.continuous ?? true) ? 1 : 0,
        passed: at + more.indexOf(failure),
        tests: checks.length,
        failure,
      };
    }
  }
  return { score: 1, passed: checks.length, ...verdict };
}

type Check = (sandbox: Sandbox) => Promise<string>;

function planChecks(tests: CodeTests, base: Program): Check[] {
  const checks: Check[] = tests.asserts.map((source) => async (sandbox) => {
    const { status } = await sandbox.run({ ...base, tests: source });
    return status === 'ok' ? '' : status === 'error' ? 'wrong answer' : status;
  });
  tests.inputs.forEach((given, index) => {
    const expected = tests.outputs[index];
    if (tests.fn_name !== undefined) {
      const name = tests.fn_name;
      checks.push(async (sandbox) => {
        const result = await sandbox.run({ ...base, call: { name, args: callArguments(given) } });
        if (result.status !== 'ok') return result.status;
        return isSameValue(result.value, parseExactly(expected)) ? '' : 'wrong answer';
      });
    } else {
      checks.push(async (sandbox) => {
        const result = await sandbox.run({ ...base, stdin: lines(given) });
        if (result.status !== 'ok') return result.status;
        return isSameOutput(result.stdout, lines(expected)) ? '' : 'wrong answer';
      });
    }
  });
  return checks;
}

/** The last fenced block; without a fence, the whole text. */
export function extractCode(solution: string): { code: string; language?: Language } {
  const blocks = [...solution.matchAll(/```[ \t]*([\w+#.-]*)[^\n]*\n([\s\S]*?)(?:```|$)/g)];
  const last = blocks.findLast((block) => languageOf(block[1]) !== undefined) ?? blocks.at(-1);
  if (!last) return { code: solution };
  return { code: last[2] ?? '', language: languageOf(last[1]) };
}

function languageOf(tag = ''): Language | undefined {
  if (/^(python[23]?|py[23]?)$/i.test(tag)) return 'python';
  return /^(javascript|js|node|nodejs|mjs|cjs)$/i.test(tag) ? 'javascript' : undefined;
}

export function parseCodeTests(groundTruth: unknown): CodeTests {
  const truth = typeof groundTruth === 'string' ? parseExactly(groundTruth) : groundTruth;
  if (typeof truth === 'string' && /\bassert\b/.test(truth)) return { inputs: [], outputs: [], asserts: [truth] };
  if (truth === null || typeof truth !== 'object') {
    throw new RewardError(
      'code: ground_truth is neither test cases {"inputs", "outputs"} (as JSON or object) nor assert statements',
    );
  }
  const record = truth as Record<string, unknown>;
  const written = record.asserts ?? record.assert_case ?? record.functional ?? (Array.isArray(truth) ? truth : []);
  const asserts = (Array.isArray(written) ? written : [written]).map(String);
  const inputs = listOf(record.inputs, 'inputs');
  const outputs = listOf(record.outputs, 'outputs');
  if (inputs.length !== outputs.length) {
    throw new RewardError(`code: ground_truth has ${inputs.length} inputs but ${outputs.length} outputs`);
  }
  if (inputs.length + asserts.length === 0) throw new RewardError('code: ground_truth has no test cases');
  const fnName = typeof record.fn_name === 'string' && record.fn_name !== '' ? record.fn_name : undefined;
  return { inputs, outputs, asserts, fn_name: fnName, language: languageOf(String(record.language ?? '')) };
}

function listOf(value: unknown, key: string): unknown[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value;
  throw new RewardError(`code: ground_truth.${key} must be a list`);
}

const lines = (value: unknown): string => (Array.isArray(value) ? value.map(String).join('\n') : String(value));

/** Arguments as a list, or (APPS, TACO) as text with one JSON value per line. */
function callArguments(given: unknown): PlainValue[] {
  if (typeof given === 'string')
    return given
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map(parseExactly);
  return Array.isArray(given) ? (given as PlainValue[]) : [given as PlainValue];
}

/** JSON with integers beyond 2^53 kept exact, as BigInt. Text that is not JSON stays text. */
function parseExactly(text: unknown): PlainValue {
  if (typeof text !== 'string') return text as PlainValue;
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (token) =>
    token.startsWith('"') ? token : `{"$integer":"${token}"}`,
  );
  try {
    return JSON.parse(marked, (_key, value) =>
      value && typeof value === 'object' && typeof value.$integer === 'string' ? BigInt(value.$integer) : value,
    );
  } catch {
    return text;
  }
}

let shared: Promise<Sandbox> | undefined;
let sharedOptions: SandboxOptions = {};

/** Which sandbox `sharedSandbox` opens from now on, for example a service of your own; one that is open is closed. */
export async function configureSharedSandbox(options: SandboxOptions): Promise<void> {
  sharedOptions = options;
  await closeSharedSandbox();
}

/** One sandbox for all rewards of this process. Its boxes end with the process. */
export function sharedSandbox(): Promise<Sandbox> {
  shared ??= createSandbox(sharedOptions).catch((error) => {
    shared = undefined;
    throw error;
  });
  return shared;
}

export async function closeSharedSandbox(): Promise<void> {
  const sandbox = await shared?.catch(() => undefined);
  shared = undefined;
  await sandbox?.close();
}
