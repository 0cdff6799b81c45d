// What a story is worth, from the policy's own state and an embedding; there is no right answer to compare with.
//
//   information  how much likelier the story's tokens become through R: log p(token | with R) - log p(token | without R)
//   entropy      how undecided the policy was over the story's tokens, best near `entropy_target`
//   similarity   cosine of the story and of what it answers (story so far and the user's turn)
//   format       <think> plan </think><story> text </story>
//
// R is the `story` (the row's story_content, left out of the prompt for `without_r`) or the `reasoning` (the response's own think
// part, left out before the story). Sampling gives none of these numbers: they are read from the log-prob pass, where `with_r` is the
// sample itself and all `without_r` rows are one further batch.
import { rewards } from 'verlet';
import { cosine, type Embedder, type EmbeddingOptions, openEmbedder } from './embeddings.ts';

export const REWARD_TYPE = 'batch';
export const REWARD_NEEDS = ['entropy', 'log_probs'];

export interface StoryOptions {
  r?: 'story' | 'reasoning';
  weights?: Partial<Record<'information' | 'entropy' | 'similarity' | 'format', number>>;
  /** Nats per token. */
  entropy_target?: number;
  embeddings?: EmbeddingOptions;
}

/** Half for a story in its tags, the other half for exactly one plan before it and nothing else. */
export function formatScore(text: string): number {
  if (rewards.tagFormat({ solution_str: text } as rewards.RewardInput, { tags: ['think', 'story'] }) === 1) return 1;
  return storyOf(text) === '' ? 0 : 0.5;
}

export function storyOf(text: string): string {
  return /<story>([\s\S]*?)<\/story>/.exec(text)?.[1]?.trim() ?? '';
}

/** Tokens from the first one behind `tag` to the end; the whole response when the tag does not come. */
export function startAfter(ids: ArrayLike<number>, tag: string, decode: (ids: ArrayLike<number>) => string): number {
  const all = Array.from(ids);
  if (!decode(all).includes(tag)) return 0;
  let [low, high] = [1, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (decode(all.slice(0, middle)).includes(tag)) high = middle;
    else low = middle + 1;
  }
  return low;
}

const mean = (values: ArrayLike<number>, from: number): number => {
  const part = Array.from(values).slice(from);
  return part.length === 0 ? 0 : part.reduce((sum, value) => sum + value, 0) / part.length;
};

/** 1 at the target, towards 0 for a policy that has collapsed or babbles. */
const nearTarget = (entropy: number, target: number): number =>
  entropy <= target ? entropy / target : target / entropy;

function withoutStory(input: rewards.RewardInput): rewards.RewardMessage[] {
  const story = String(input.story_content ?? '');
  return (input.prompt ?? []).map((message) =>
    story === '' ? message : { ...message, content: String(message.content).replace(story, '') },
  );
}

/** The sample as it would be without R: another prompt, or the story right behind the prompt. */
function withoutR(
  input: rewards.RewardInput,
  r: StoryOptions['r'],
  start: number,
  context: rewards.RewardContext,
): rewards.PolicyQuery {
  const responseIds = Array.from(input.response_ids!);
  if (r === 'reasoning') return { promptIds: input.prompt_ids!, responseIds: responseIds.slice(start) };
  return { promptIds: context.encodePrompt(withoutStory(input)), responseIds };
}

/** One per setting: a model folder is loaded once. */
const embedders = new Map<string, Promise<Embedder>>();

function embedderFor(options: EmbeddingOptions): Promise<Embedder> {
  const key = JSON.stringify(options);
  const opened = embedders.get(key) ?? openEmbedder(options);
  embedders.set(key, opened);
  return opened;
}

export async function compute_score(
  inputs: readonly rewards.RewardInput[],
  options: StoryOptions,
  context: rewards.RewardContext,
) {
  const { r = 'story', weights = {}, entropy_target: target = 1.5, embeddings = {} } = options;
  const starts = inputs.map((input) =>
    startAfter(input.response_ids!, r === 'reasoning' ? '</think>' : '<story>', context.decode),
  );
  const without = await context.scorePolicy(inputs.map((input, k) => withoutR(input, r, starts[k]!, context)));

  const stories = inputs.map(({ solution_str }) => storyOf(solution_str) || solution_str);
  const asked = inputs.map(({ story_content, user_input }) => `${story_content ?? ''} ${user_input ?? ''}`);
  const vectors = await (await embedderFor(embeddings)).embed([...stories, ...asked]);

  return inputs.map((input, k) => {
    const offset = r === 'reasoning' ? starts[k]! : 0;
    const gains = Array.from(input.log_probs!).map((value, at) => value - (without[k]!.logProbs[at - offset] ?? value));
    const parts = {
      information: Math.tanh(mean(gains, starts[k]!)),
      entropy: nearTarget(mean(input.entropy!, starts[k]!), target),
      similarity: cosine(vectors[k]!, vectors[inputs.length + k]!),
      format: formatScore(input.solution_str),
    };
    const weight = { information: 1, entropy: 0.2, similarity: 0.5, format: 0.5, ...weights };
    const score = Object.entries(parts).reduce(
      (sum, [name, value]) => sum + weight[name as keyof typeof parts] * value,
      0,
    );
    return { score, ...parts };
  });
}
