import { UserError } from '../../config/errors.js';
import { BYTE_ALPHABET, toByteCharacters } from './byte-level.js';
import { preTokenize } from './pre-tokenize.js';
import { Tokenizer } from './tokenizer.js';
import { DEFAULT_SPECIAL_TOKENS, writeTokenizerFolder } from './tokenizer-folder.js';

export interface TrainBpeOptions {
  /** Of the whole vocabulary: 256 bytes, merges and special tokens. */
  vocabSize: number;
  /** Where the tokenizer is written. */
  folder: string;
  specialTokens?: readonly string[];
  /** Pairs seen less often are not merged. */
  minFrequency?: number;
  chatTemplate?: string;
}

/**
 * Trains a byte-level BPE tokenizer and writes it as a Hugging Face folder. Merges are those of the `tokenizers` trainer:
 * the most frequent pair first, of equals the one with the smaller ids.
 */
export async function trainBpe(texts: Iterable<string>, options: TrainBpeOptions): Promise<Tokenizer> {
  const { vocabSize, folder, specialTokens = DEFAULT_SPECIAL_TOKENS, minFrequency = 1, chatTemplate } = options;
  const numMerges = vocabSize - BYTE_ALPHABET.length - specialTokens.length;
  if (numMerges < 0) {
    const least = BYTE_ALPHABET.length + specialTokens.length;
    throw new UserError(
      `vocabSize ${vocabSize} is too small: 256 bytes and ${specialTokens.length} special tokens need ${least}`,
    );
  }
  const { tokens, merges } = learnMerges(countWords(texts), numMerges, minFrequency);
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  await writeTokenizerFolder(folder, { vocab, merges, specialTokens, chatTemplate });
  return Tokenizer.load(folder);
}

/** How often each piece occurs, in byte characters. */
function countWords(texts: Iterable<string>): Map<string, number> {
  const pieces = new Map<string, number>();
  for (const text of texts) {
    for (const piece of preTokenize(text)) pieces.set(piece, (pieces.get(piece) ?? 0) + 1);
  }
  const words = new Map<string, number>();
  for (const [piece, count] of pieces) words.set(toByteCharacters(piece), count);
  return words;
}

interface Word {
  symbols: number[];
  count: number;
}

interface Candidate {
  pair: number;
  count: number;
}

// A pair of ids as one number, ordered as the pair is.
const PAIR_BASE = 2 ** 24;
const pairOf = (left: number, right: number) => left * PAIR_BASE + right;

function learnMerges(
  wordCounts: Map<string, number>,
  numMerges: number,
  minFrequency: number,
): { tokens: string[]; merges: [string, string][] } {
  const tokens = [...BYTE_ALPHABET];
  const idOfToken = new Map(tokens.map((token, id) => [token, id]));
  const words: Word[] = [];
  for (const [text, count] of wordCounts) {
    words.push({ symbols: Array.from(text, (character) => idOfToken.get(character) as number), count });
  }

  const counts = new Map<number, number>();
  const wordsWith = new Map<number, Set<number>>();
  const add = (pair: number, count: number, wordIndex: number) => {
    counts.set(pair, (counts.get(pair) ?? 0) + count);
    const holders = wordsWith.get(pair);
    if (holders) holders.add(wordIndex);
    else wordsWith.set(pair, new Set([wordIndex]));
  };
  words.forEach(({ symbols, count }, index) => {
    for (let i = 1; i < symbols.length; i++) add(pairOf(symbols[i - 1] as number, symbols[i] as number), count, index);
  });

  const queue = new CandidateQueue();
  for (const [pair, count] of counts) queue.push({ pair, count });

  const merges: [string, string][] = [];
  while (merges.length < numMerges) {
    const best = queue.pop();
    if (!best) break;
    const current = counts.get(best.pair) ?? 0;
    if (current !== best.count) {
      // Counts fall as neighbours merge; the entry goes back with what is true now.
      if (current > 0) queue.push({ pair: best.pair, count: current });
      continue;
    }
    if (current < minFrequency) break;
    const left = Math.floor(best.pair / PAIR_BASE);
    const right = best.pair % PAIR_BASE;
    const merged = (tokens[left] as string) + (tokens[right] as string);
    let mergedId = idOfToken.get(merged);
    if (mergedId === undefined) {
      mergedId = tokens.push(merged) - 1;
      idOfToken.set(merged, mergedId);
    }
    merges.push([tokens[left] as string, tokens[right] as string]);

    const grown = new Set<number>();
    for (const index of wordsWith.get(best.pair) ?? []) {
      mergeInWord(words[index] as Word, left, right, mergedId, (pair, change) => {
        if (change > 0) {
          add(pair, change, index);
          grown.add(pair);
        } else counts.set(pair, (counts.get(pair) ?? 0) + change);
      });
    }
    counts.delete(best.pair);
    wordsWith.delete(best.pair);
    for (const pair of grown) {
      const count = counts.get(pair) ?? 0;
      if (count > 0) queue.push({ pair, count });
    }
  }
  return { tokens, merges };
}

/** Replaces the pair everywhere in a word and reports how the counts of neighbouring pairs change. */
function mergeInWord(
  word: Word,
  left: number,
  right: number,
  merged: number,
  change: (pair: number, count: number) => void,
): void {
  const { symbols, count } = word;
  const result: number[] = [];
  for (let i = 0; i < symbols.length; ) {
    if (symbols[i] !== left || symbols[i + 1] !== right) {
      result.push(symbols[i++] as number);
      continue;
    }
    const before = result.at(-1);
    const after = symbols[i + 2];
    if (before !== undefined) {
      change(pairOf(before, left), -count);
      change(pairOf(before, merged), count);
    }
    if (after !== undefined) {
      change(pairOf(right, after), -count);
      change(pairOf(merged, after), count);
    }
    result.push(merged);
    i += 2;
  }
  word.symbols = result;
}

/** A binary heap: highest count first, then the smaller pair. */
class CandidateQueue {
  private readonly heap: Candidate[] = [];

  push(candidate: Candidate): void {
    const { heap } = this;
    let at = heap.push(candidate) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(candidate, heap[parent] as Candidate)) break;
      heap[at] = heap[parent] as Candidate;
      at = parent;
    }
    heap[at] = candidate;
  }

  pop(): Candidate | undefined {
    const { heap } = this;
    const top = heap[0];
    const last = heap.pop();
    if (!top || !last || heap.length === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Candidate, heap[child] as Candidate)) child++;
      if (!isBefore(heap[child] as Candidate, last)) break;
      heap[at] = heap[child] as Candidate;
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

function isBefore(a: Candidate, b: Candidate): boolean {
  return a.count !== b.count ? a.count > b.count : a.pair < b.pair;
}
