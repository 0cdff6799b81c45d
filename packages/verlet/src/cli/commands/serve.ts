import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import { toolParser, toolParserNames } from '../../agents/tools/parsers/index.js';
import { UserError } from '../../config/errors.js';
import { startServer, withCallHints } from '../../rollout/server/index.js';
import type { ServerTokenizer } from '../../rollout/server/types.js';
import type { Engine } from '../../rollout/types.js';
import { type CommandInvocation, type CommandModule, EXIT, untilAborted } from '../command.js';
import { aboveZero, port, share, wholeNumber } from '../option-values.js';

/** What the engine is told; each is absent unless given. */
export interface ServedEngineOptions {
  device?: string;
  dtype?: string;
  maxModelLength?: number;
  maxNumSeqs?: number;
  maxNumBatchedTokens?: number;
  gpuMemoryUtilization?: number;
  adapter?: string;
}

export interface ServedModel {
  engine: Engine;
  tokenizer: ServerTokenizer & { vocabSize?: number };
}

export type LoadServedModel = (nameOrPath: string, options: ServedEngineOptions) => Promise<ServedModel>;

interface ServeOptions extends ServedEngineOptions {
  host: string;
  port: number;
  apiKey?: string;
  servedModelName?: string;
  toolCallParser: string;
  maxBodyMb: number;
  requestTimeout: number;
  shutdownTimeout: number;
  keepThinking?: boolean;
  control?: boolean;
}

export const command: CommandModule = {
  name: 'serve',
  summary: 'Serve a model with an OpenAI-compatible API',

  configure(command: Command) {
    command
      .argument('<model>', 'a model folder, a run, a checkpoint or an adapter, or a name on the Hugging Face hub')
      .option('--host <address>', 'address to listen on; others than loopback need an API key', '127.0.0.1')
      .option('--port <number>', 'port to listen on, 0 for a free one', port, 8000)
      .option('--api-key <key>', 'key that clients must send (default: $VERLET_API_KEY)')
      .option('--served-model-name <name>', 'name that clients ask for (default: the model as given)')
      .addOption(
        new Option('--tool-call-parser <format>', 'how the model writes tool calls')
          .choices(['none', ...toolParserNames()])
          .default('hermes'),
      )
      .option('--keep-thinking', 'leave <think>...</think> in the content instead of reasoning_content')
      .option('--adapter <folder>', 'adapter to apply, in PEFT format')
      .option('--device <device>', 'cpu, cuda, cuda:1 (default: a GPU where there is one)')
      .option('--dtype <type>', 'float32, bfloat16 or float16 (default: float32 on the CPU, bfloat16 on a GPU)')
      .option('--max-model-length <tokens>', 'longest prompt and answer together', wholeNumber(1))
      .option('--max-num-seqs <number>', 'sequences sampled at a time', wholeNumber(1))
      .option('--max-num-batched-tokens <number>', 'tokens processed in one step', wholeNumber(1))
      .option('--gpu-memory-utilization <share>', 'share of the GPU memory to use', share)
      .option('--max-body-mb <number>', 'largest request in MiB', aboveZero, 16)
      .option('--request-timeout <seconds>', 'longest time for one request', aboveZero, 1800)
      .option('--shutdown-timeout <seconds>', 'how long requests may go on after Ctrl-C', wholeNumber(0), 10)
      .option('--control', 'offer /sleep, /wake_up, /reset_prefix_cache and /update_weights_from_disk to clients')
      .addHelpText(
        'after',
        `
Examples:
  verlet serve Qwen/Qwen2.5-0.5B-Instruct
  verlet serve checkpoints/gsm8k/run --port 8080 --served-model-name mine
  VERLET_API_KEY=secret verlet serve ./model --host 0.0.0.0`,
      );
  },

  run: (invocation) => serveModel(invocation, loadModel),
};

/** Serves until `signal` aborts or the process is told to end. */
export async function serveModel(invocation: CommandInvocation, load: LoadServedModel): Promise<number> {
  const { args, io, signal } = invocation;
  const options = invocation.options as unknown as ServeOptions;
  const name = args[0]!;
  const { device, dtype, maxModelLength, maxNumSeqs, maxNumBatchedTokens, gpuMemoryUtilization, adapter } = options;
  const limits = { maxModelLength, maxNumSeqs, maxNumBatchedTokens, gpuMemoryUtilization };
  const engineOptions = { device, dtype, adapter, ...limits };
  const { engine, tokenizer } = await load(name, engineOptions);
  try {
    const model = options.servedModelName ?? (/^[./~]/.test(name) ? basename(name) : name);
    const server = await listen({
      host: options.host,
      port: options.port,
      apiKey: options.apiKey ?? (process.env.VERLET_API_KEY || undefined),
      model,
      engine,
      tokenizer,
      vocabSize: tokenizer.vocabSize,
      toolCallParser: options.toolCallParser === 'none' ? undefined : withCallHints(toolParser(options.toolCallParser)),
      separateThinking: options.keepThinking !== true,
      maxBodyBytes: options.maxBodyMb * 1024 * 1024,
      requestTimeoutMs: options.requestTimeout * 1000,
      control: options.control,
      onError: (error) => io.note(error instanceof Error ? (error.stack ?? error.message) : String(error)),
    });
    io.print(`${model} at ${server.url}/v1`);
    await untilAborted(signal);
    io.note(`stopping; requests may go on for ${options.shutdownTimeout} s`);
    await server.close({ deadlineMs: options.shutdownTimeout * 1000 });
    return EXIT.ok;
  } finally {
    await engine.close();
  }
}

async function listen(options: Parameters<typeof startServer>[0]) {
  try {
    return await startServer(options);
  } catch (error) {
    throw new UserError((error as Error).message, { cause: error });
  }
}

async function loadModel(nameOrPath: string, options: ServedEngineOptions): Promise<ServedModel> {
  // Loaded late: the engine brings libtorch, which `verlet serve --help` should not wait for.
  const { openEngine } = await import('../../trainer/generate/index.js');
  return openEngine(nameOrPath, options);
}
