import { createInterface } from 'node:readline';
import { type Command, InvalidArgumentError } from 'commander';
import type { ChatSession } from '../chat-session.js';
import { type CommandInvocation, type CommandModule, EXIT } from '../command.js';
import { defaultHistoryFile, TerminalLines, type TerminalStreams } from '../terminal-lines.js';

interface ChatFlags {
  system?: string;
  temperature: number;
  topP: number;
  topK: number;
  maxTokens: number;
  seed: number;
  logprobs?: number | true;
  raw?: boolean;
  adapter?: string;
  device?: string;
  dtype?: string;
  maxModelLength?: number;
  templateKwargs?: Record<string, unknown>;
}

export const command: CommandModule = chatCommand({ input: process.stdin, output: process.stdout });

/** Lines come from and text goes to a terminal, pipes, or a test. */
export function chatCommand(streams: TerminalStreams): CommandModule {
  return {
    name: 'chat',
    summary: 'Talk to a model in the terminal',

    configure(command: Command) {
      command
        .argument('<model>', 'a model folder, a run, a checkpoint or an adapter, or a name on the Hugging Face hub')
        .option('--system <text>', 'system message')
        .option('--temperature <number>', 'sampling temperature; 0 is greedy', notNegative, 0.7)
        .option('--top-p <share>', 'sample among the likeliest tokens of this total probability', share, 1)
        .option('--top-k <number>', 'sample among the k likeliest tokens; -1 keeps all', whole, -1)
        .option('--max-tokens <number>', 'longest answer', positive, 1024)
        .option('--seed <number>', 'the same seed and words give the same answers', whole, 0)
        .option('--logprobs [count]', "show each token's log-probability, and this many of the likeliest", upToTwenty)
        .option('--raw', 'continue plain text, without a chat template (for base models)')
        .option(
          '--template-kwargs <json>',
          'arguments of the chat template, such as {"enable_thinking": false}',
          object,
        )
        .option('--adapter <folder>', 'adapter to apply, in PEFT format')
        .option('--device <device>', 'cpu, cuda, cuda:1 (default: a GPU where there is one)')
        .option('--dtype <type>', 'float32, bfloat16 or float16')
        .option('--max-model-length <tokens>', 'longest conversation', positive, 8192)
        .addHelpText(
          'after',
          `
Examples:
  verlet chat Qwen/Qwen2.5-0.5B-Instruct
  verlet chat checkpoints/gsm8k/run --temperature 0 --logprobs 3
  echo "What is 1 + 2?" | verlet chat ./model

In the conversation: /reset, /undo, /system TEXT, /logprobs [N], /set NAME VALUE, /help, /exit. Ctrl-C ends an answer,
Ctrl-D the chat. A line that ends in \\ goes on; what is pasted is one message. Arrow keys bring back earlier lines.`,
        );
    },

    run: (invocation) => chat(invocation, streams),
  };
}

/** Control characters other than tab and line break. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

async function chat(invocation: CommandInvocation, streams: TerminalStreams): Promise<number> {
  const { args, options, io, signal } = invocation;
  const flags = options as unknown as ChatFlags;
  const isTerminal = Boolean(streams.input.isTTY && streams.output.isTTY);
  if (isTerminal) io.note(`loading ${args[0]} ...`);
  // Loaded late: the engine brings libtorch, which the help page should not wait for.
  const { openEngine } = await import('../../trainer/generate/index.js');
  const { ChatSession } = await import('../chat-session.js');
  const { device, dtype, adapter, maxModelLength } = flags;
  const { engine, tokenizer } = await openEngine(args[0]!, { device, dtype, adapter, maxModelLength, maxNumSeqs: 1 });
  const session = new ChatSession({
    engine,
    tokenizer,
    // What a model says is shown, not obeyed: a terminal would take escape characters for commands.
    write: (text) => streams.output.write(isTerminal ? text.replace(CONTROL, '\ufffd') : text),
    note: io.note,
    settings: {
      sampling: {
        temperature: flags.temperature,
        topP: flags.topP,
        topK: flags.topK,
        maxTokens: flags.maxTokens,
        seed: flags.seed,
      },
      system: flags.system,
      logProbs: flags.logprobs === undefined ? null : flags.logprobs === true ? 0 : flags.logprobs,
      isRaw: flags.raw === true,
      templateKwargs: flags.templateKwargs,
    },
  });
  const interrupt = (): void => void session.interrupt();
  signal.addEventListener('abort', interrupt, { once: true });
  try {
    // Ctrl-C while the model was loading.
    if (!signal.aborted) await (isTerminal ? talk(session, streams, io) : answerLines(session, streams, signal));
    return signal.aborted ? EXIT.interrupted : EXIT.ok;
  } finally {
    signal.removeEventListener('abort', interrupt);
    await engine.close();
  }
}

/** Every line of a pipe is a turn. */
async function answerLines(session: ChatSession, { input }: TerminalStreams, signal: AbortSignal): Promise<void> {
  const lines = createInterface({ input });
  const stop = (): void => lines.close();
  signal.addEventListener('abort', stop, { once: true });
  for await (const line of lines) if (signal.aborted || !(await session.handle(line))) break;
  signal.removeEventListener('abort', stop);
  lines.close();
}

/** A terminal is in raw mode: Ctrl-C and Ctrl-D arrive as keys. */
async function talk(session: ChatSession, streams: TerminalStreams, io: CommandInvocation['io']): Promise<void> {
  const lines = new TerminalLines(streams, { prompt: '> ', continuation: '. ', historyFile: defaultHistoryFile() });
  let wantsToLeave = false;
  lines.readline.on('SIGINT', () => {
    if (session.interrupt()) return;
    if (lines.discard()) wantsToLeave = false;
    else if (wantsToLeave) return lines.readline.close();
    else {
      wantsToLeave = true;
      streams.output.write('\n');
      io.note('(once more, Ctrl-D or /exit to leave)');
    }
    lines.prompt();
  });
  lines.readline.on('close', () => session.interrupt());
  io.note('/help says what there is besides talking');
  lines.prompt();
  try {
    for await (const entry of lines) {
      wantsToLeave = false;
      lines.mute();
      if (!(await session.handle(entry))) break;
      lines.prompt();
    }
  } finally {
    lines.close();
    streams.output.write('\n');
  }
}

function numeric(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('It must be a number.');
  return value;
}

function whole(text: string): number {
  const value = numeric(text);
  if (!Number.isInteger(value)) throw new InvalidArgumentError('It must be a whole number.');
  return value;
}

function positive(text: string): number {
  const value = whole(text);
  if (value < 1) throw new InvalidArgumentError('It must be at least 1.');
  return value;
}

function notNegative(text: string): number {
  const value = numeric(text);
  if (value < 0) throw new InvalidArgumentError('It must not be negative.');
  return value;
}

function share(text: string): number {
  const value = numeric(text);
  if (!(value > 0 && value <= 1)) throw new InvalidArgumentError('It must be above 0 and at most 1.');
  return value;
}

function upToTwenty(text: string): number {
  const value = whole(text);
  if (value < 0 || value > 20) throw new InvalidArgumentError('It must lie between 0 and 20.');
  return value;
}

function object(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new InvalidArgumentError('It must be a JSON object.');
}
