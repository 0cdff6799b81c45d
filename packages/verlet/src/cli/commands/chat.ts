import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import type { ChatSession } from '../chat-session.js';
import { type CommandInvocation, type CommandModule, EXIT } from '../command.js';
import { jsonObject, notNegative, share, wholeNumber } from '../option-values.js';
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
        .option('--top-k <number>', 'sample among the k likeliest tokens; -1 keeps all', wholeNumber(-1), -1)
        .option('--max-tokens <number>', 'longest answer', wholeNumber(1), 1024)
        .option(
          '--seed <number>',
          'the same seed and words give the same answers',
          wholeNumber(Number.MIN_SAFE_INTEGER),
          0,
        )
        .option(
          '--logprobs [count]',
          "show each token's log-probability, and this many of the likeliest",
          wholeNumber(0, 20),
        )
        .option('--raw', 'continue plain text, without a chat template (for base models)')
        .option(
          '--template-kwargs <json>',
          'arguments of the chat template, such as {"enable_thinking": false}',
          jsonObject,
        )
        .option('--adapter <folder>', 'adapter to apply, in PEFT format')
        .option('--device <device>', 'cpu, cuda, cuda:1 (default: a GPU where there is one)')
        .option('--dtype <type>', 'float32, bfloat16 or float16')
        .option('--max-model-length <tokens>', 'longest conversation', wholeNumber(1), 8192)
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
