// What a story is worth, from the policy's own state and an embedding; there is no right answer to compare with.
//
//   information  how much likelier the tokens become through R: log p(token | with R) - log p(token | without R)
//   entropy      how undecided the policy was over the tokens, best near `entropy_target`
//   similarity   cosine of the story and of what it answers (story so far and the user's turn)
//   format       <think> plan </think><story> text </story>
//   target       words shared with target_response: never rewarded, there to see whether the others are being cheated
//
// R is the `story` (the row's story_content, left out of the prompt for `without_r`; plan and story are measured) or the `reasoning`
// (the response's own think part, left out before the story; the story is measured). Sampling gives none of these numbers: they are read from the log-prob pass, where `with_r` is the
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
  /** Shorter responses are measured as if they had this many tokens: else the best story is one informative word. */
  min_tokens?: number;
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

/** How many of the words are those of the other text, as F1. */
export function sharedWords(text: string, other: string): number {
  const words = (of: string) => of.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const [mine, theirs] = [words(text), words(other)];
  const left = [...theirs];
  const shared = mine.filter((word) => {
    const at = left.indexOf(word);
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  }).length;
  return shared === 0 ? 0 : (2 * shared) / (mine.length + theirs.length);
}

const mean = (values: readonly number[], least = 1): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, least);

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
  const { r = 'story', weights = {}, entropy_target: target = 1.5, min_tokens: least = 64, embeddings = {} } = options;
  // With the story as R the plan counts too: a story that follows from its own plan owes R nothing more.
  const starts = inputs.map((input) =>
    r === 'reasoning' ? startAfter(input.response_ids!, '</think>', context.decode) : 0,
  );
  const without = await context.scorePolicy(inputs.map((input, k) => withoutR(input, r, starts[k]!, context)));

  const stories = inputs.map(({ solution_str }) => storyOf(solution_str) || solution_str);
  const asked = inputs.map(({ story_content, user_input }) => `${story_content ?? ''} ${user_input ?? ''}`);
  const vectors = await (await embedderFor(embeddings)).embed([...stories, ...asked]);

  return inputs.map((input, k) => {
    const measured = (values: ArrayLike<number>): number[] => Array.from(values).slice(starts[k]);
    const gains = measured(input.log_probs!).map((value, at) => value - without[k]!.logProbs[at]!);
    const parts = {
      information: Math.tanh(mean(gains, least)),
      entropy: nearTarget(mean(measured(input.entropy!)), target),
      similarity: cosine(vectors[k]!, vectors[inputs.length + k]!),
      format: formatScore(input.solution_str),
    };
    const weight = { information: 1, entropy: 0.2, similarity: 0.5, format: 0.5, ...weights };
    const score = Object.entries(parts).reduce(
      (sum, [name, value]) => sum + weight[name as keyof typeof parts] * value,
      0,
    );
    return { score, ...parts, target: sharedWords(stories[k]!, storyOf(String(input.target_response ?? ''))) };
  });
}
