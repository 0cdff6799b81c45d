import { readFile } from 'node:fs/promises';
import type { PpoConfig } from '../config/index.js';
import { createJudgeScorer, LlmJudge, type LlmJudgeOptions, RewardError, type Scorer } from '../rewards/index.js';

/** The judge named under `reward_model.judge`. */
export async function openJudge(settings: PpoConfig['reward_model']['judge']): Promise<Scorer> {
  const { mode, weight: _, rubric_path, model, ...rest } = settings;
  const rubric = rest.rubric ?? (rubric_path ? await readRubric(rubric_path) : '');
  if (!model) throw new RewardError('reward_model.judge.model is not set: name the model to ask at base_url');
  if (!rubric.trim()) {
    throw new RewardError('reward_model.judge.rubric (or rubric_path) is empty: say in words what a good response is');
  }
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  return createJudgeScorer(new LlmJudge({ ...given, model, rubric } as LlmJudgeOptions), mode);
}

async function readRubric(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new RewardError(`reward_model.judge.rubric_path: ${(error as Error).message}`, { cause: error });
  }
}
