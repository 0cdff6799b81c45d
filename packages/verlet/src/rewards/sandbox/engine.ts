import type { Box } from './box.js';
import { decodePlain, type Encoded, encodePlain } from './plain-value.js';
import type { BoxPool } from './pool.js';
import { defaultLimits, type Limits, type Program, type SandboxResult } from './types.js';

/** Where programs of one language run: boxes for programs, and other boxes for tests, which no program ever enters. */
export interface Engine {
  programs: BoxPool;
  checkers: BoxPool;
}

export function resolveLimits(...layers: (Partial<Limits> | undefined)[]): Limits {
  const limits = { ...defaultLimits };
  for (const layer of layers) {
    for (const [key, value] of Object.entries(layer ?? {})) {
      if (value === undefined) continue;
      if (!(key in defaultLimits))
        throw new TypeError(`unknown limit ${key}; known: ${Object.keys(defaultLimits).join(', ')}`);
      if (!(Number.isFinite(value) && value > 0))
        throw new RangeError(`limit ${key} must be a positive number, not ${value}`);
      limits[key as keyof Limits] = value;
    }
  }
  return limits;
}

/**
 * A box that ends by itself gives no verdict: something else may have ended it (the machine out of memory, an earlier program).
 * The program gets one more, new box; one that takes that down too is to blame.
 */
export async function runProgram(engine: Engine, program: Program, limits: Limits): Promise<SandboxResult> {
  const first = await runOnce(engine, program, limits);
  if (!first.wasLost || engine.programs.isClosed) return first.result;
  return (await runOnce(engine, program, limits)).result;
}

async function runOnce(
  engine: Engine,
  program: Program,
  limits: Limits,
): Promise<{ result: SandboxResult; wasLost: boolean }> {
  return engine.programs.use(async (box) => {
    if (program.tests !== undefined) {
      return engine.checkers.use(async (checker) => {
        const result = await runTests(box, checker, program, limits);
        return { result, wasLost: box.wasLost || checker.wasLost };
      });
    }
    const { language, code, stdin } = program;
    const result = program.call
      ? await runCall(box, program, program.call, limits)
      : await box.execute({ mode: 'script', language, code, stdin, limits });
    return { result, wasLost: box.wasLost };
  });
}

async function runCall(
  box: Box,
  { language, code, stdin }: Program,
  call: NonNullable<Program['call']>,
  limits: Limits,
): Promise<SandboxResult> {
  const request = JSON.stringify({ do: 'call', h: null, name: call.name, args: call.args.map(encodePlain) });
  let lines = 0;
  let answer: { value?: Encoded; raised?: string } | undefined;
  const result = await box.execute({ mode: 'serve', language, code, stdin, limits }, (line) => {
    lines += 1;
    if (lines === 1) box.reply(request);
    if (lines === 2) {
      answer = parseObject(line);
      box.endWire();
    }
  });
  if (result.status !== 'ok') return result;
  // A program that exits with 0 before it answered has not answered.
  if (!answer || !('value' in answer)) return { ...result, status: 'error' };
  return { ...result, value: decodePlain(answer.value ?? null) };
}

/** The tests drive: each call they make crosses to the program's box and its answer crosses back. */
async function runTests(
  box: Box,
  checker: Box,
  { language, code, stdin, tests = '' }: Program,
  limits: Limits,
): Promise<SandboxResult> {
  let hasPassed = false;
  const stopChecker = new AbortController();
  const checking = checker.execute(
    { mode: 'check', language, code: tests, limits: { ...limits, timeoutMs: limits.timeoutMs + 1_000 } },
    (line) => {
      if (parseObject(line)?.verdict === 'passed') hasPassed = true;
      else box.reply(line);
    },
    stopChecker.signal,
  );
  const serving = box.execute({ mode: 'serve', language, code, stdin, limits }, (line) => checker.reply(line));
  // Whoever ends first, the other is not left waiting for a line that will never come.
  void serving.then(() => checker.endWire());
  void checking.then(() => box.endWire());
  const served = await serving;
  const late = setTimeout(() => stopChecker.abort(), 1_000);
  const checked = await checking;
  clearTimeout(late);
  if (served.status !== 'ok') return served;
  if (hasPassed && checked.status === 'ok') return served;
  const status = checked.status === 'ok' ? 'error' : checked.status;
  return { ...served, status, stderr: checked.stderr || served.stderr, exitCode: checked.exitCode };
}

// biome-ignore lint/suspicious/noExplicitAny: a line written by an untrusted program; every use checks what it reads
function parseObject(line: string): any {
  try {
    const value = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
