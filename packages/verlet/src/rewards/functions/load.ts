import { stat } from 'node:fs/promises';
import { extname, resolve } from 'node:path';
import { importModule } from '../../config/import-module.js';
import { type RewardContext, RewardError } from '../types.js';
import { loadPythonScorer, type PythonScorerOptions } from './python.js';
import { createScorer, defaultScorer, type Scorer, type ScorerParts } from './scorer.js';

/** verl's `custom_reward_function` section. */
export interface CustomRewardFunction {
  /** `.ts`, `.js`, `.mjs`, `.cjs`, `.mts`, `.cts` or `.py`; EasyR1's `file:function` form works too. */
  path?: string | null;
  /** Default `compute_score`. */
  name?: string | null;
  reward_kwargs?: Record<string, unknown> | null;
}

const scriptExtensions = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs'];

/** A CommonJS file arrives as `default`, one written as ESM by its names. */
function exportsOf(module: Record<string, unknown>): Record<string, unknown> {
  const inner = module.default;
  return typeof inner === 'object' && inner !== null ? { ...(inner as Record<string, unknown>), ...module } : module;
}

async function checkFile(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) throw new RewardError(`custom_reward_function.path: there is no file ${path}`);
}

/**
 * Loads a reward function. In TypeScript or JavaScript it is
 *
 * ```ts
 * export function compute_score({ solution_str, ground_truth, extra_info }: RewardInput, reward_kwargs) {
 *   return { score: solution_str.includes(String(ground_truth)) ? 1 : 0, length: solution_str.length };
 * }
 * ```
 *
 * sync or async, one object per sample. With `export const REWARD_TYPE = 'batch'` it is called once with a list of them.
 * With `export const REWARD_NEEDS = ['entropy', 'log_probs']` the samples carry the policy's own numbers per response token, and
 * the third argument (`RewardContext`) scores responses behind other prompts.
 */
export async function loadRewardFunction(
  config: CustomRewardFunction,
  pythonOptions: PythonScorerOptions = {},
  context?: RewardContext,
): Promise<Scorer> {
  const kwargs = config.reward_kwargs ?? {};
  if (!config.path) return defaultScorer(kwargs);
  const colon = /^(.+\.[cm]?[jt]s|.+\.py):([A-Za-z_$][\w$]*)$/.exec(config.path);
  const path = resolve(colon?.[1] ?? config.path);
  const name = config.name ?? colon?.[2] ?? 'compute_score';
  const extension = extname(path);
  await checkFile(path);
  if (extension === '.py') return loadPythonScorer(path, name, kwargs, pythonOptions);
  if (!scriptExtensions.includes(extension)) {
    throw new RewardError(`custom_reward_function.path: ${path} must end in ${scriptExtensions.join(', ')} or .py`);
  }
  let module: Record<string, unknown>;
  try {
    module = exportsOf(await importModule(path));
  } catch (error) {
    throw new RewardError(`${path} cannot be loaded: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  }
  const compute = module[name];
  if (typeof compute !== 'function') {
    const names = Object.keys(module).filter((key) => typeof module[key] === 'function');
    throw new RewardError(
      `${path} exports no function ${name}; it exports ${names.join(', ') || 'no function'}. Set custom_reward_function.name`,
    );
  }
  const type = module.REWARD_TYPE ?? 'sequential';
  if (type !== 'batch' && type !== 'sequential') {
    throw new RewardError(`${path}: REWARD_TYPE is "batch" or "sequential", not ${JSON.stringify(type)}`);
  }
  const needs = readNeeds(module.REWARD_NEEDS, path);
  const parts = { type, compute, options: kwargs, source: { path, name }, needs, context };
  return createScorer(parts as unknown as ScorerParts);
}

const knownNeeds = ['log_probs', 'entropy', 'ref_log_prob'];

function readNeeds(value: unknown, path: string): string[] {
  const words = value ?? [];
  const unknown = Array.isArray(words) ? words.find((word) => !knownNeeds.includes(word)) : words;
  if (unknown !== undefined)
    throw new RewardError(
      `${path}: REWARD_NEEDS is a list of ${knownNeeds.join(', ')}; ${JSON.stringify(unknown)} is none of them`,
    );
  return words as string[];
}
