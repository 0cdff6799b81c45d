import type { Command } from 'commander';
import { Bm25Retriever, DenseRetriever, readCorpus, serveRetriever } from '../../agents/search/index.js';
import { UserError } from '../../config/errors.js';
import { type CommandContext, type CommandModule, untilAborted } from '../command.js';
import { port, wholeNumber } from '../option-values.js';

interface ServeOptions {
  port: number;
  host: string;
  topk: number;
  token?: string;
  embeddingsUrl?: string;
  embeddingsModel: string;
  queryPrefix: string;
  passagePrefix: string;
}

export const command: CommandModule = {
  name: 'retriever',
  summary: 'Serve a search index to search agents',

  configure(command: Command, context: CommandContext) {
    command
      .command('serve')
      .description('serve POST /retrieve over a JSONL corpus: BM25, or dense with --embeddings-url')
      .argument('<corpus>', 'JSONL file: {"id", "contents"} or {"id", "title", "text"} per line')
      .option('--port <number>', 'port to listen on, 0 for a free one', port, 8000)
      .option('--host <address>', 'address to listen on; others than loopback need a token', '127.0.0.1')
      .option('--topk <number>', 'passages per query when a request does not say', wholeNumber(1), 3)
      .option('--token <secret>', 'bearer token that clients must send (default: $VERLET_RETRIEVER_TOKEN)')
      .option('--embeddings-url <url>', 'OpenAI-style embeddings endpoint; switches to dense retrieval')
      .option('--embeddings-model <name>', 'model name sent to that endpoint', 'intfloat/e5-base-v2')
      .option('--query-prefix <text>', 'put before queries', 'query: ')
      .option('--passage-prefix <text>', 'put before passages', 'passage: ')
      .addHelpText(
        'after',
        `
Examples:
  verlet retriever serve corpus.jsonl
  verlet retriever serve corpus.jsonl --embeddings-url http://127.0.0.1:8080/v1/embeddings`,
      )
      .action((corpus: string, options: ServeOptions) => serveCorpus(corpus, options, context));
  },
};

/** Serves until `signal` aborts or the process is told to end. */
async function serveCorpus(corpus: string, options: ServeOptions, { io, signal }: CommandContext): Promise<void> {
  const token = options.token ?? (process.env.VERLET_RETRIEVER_TOKEN || undefined);
  let served: Awaited<ReturnType<typeof startServing>>;
  try {
    served = await startServing(corpus, { ...options, token }, io);
  } catch (error) {
    throw new UserError((error as Error).message, { cause: error });
  }
  io.print(`${served.passages} passages at ${served.server.url}`);
  await untilAborted(signal);
  await served.server.close();
}

async function startServing(corpus: string, options: ServeOptions, io: CommandContext['io']) {
  const { embeddingsUrl: url, embeddingsModel: model, queryPrefix, passagePrefix, topk, host, port, token } = options;
  const documents = readCorpus(corpus);
  const retriever = url
    ? await DenseRetriever.from(documents, { url, model, queryPrefix, passagePrefix })
    : await Bm25Retriever.from(documents);
  io.note(`${url ? 'embedded' : 'indexed'} ${retriever.size} passages of ${corpus}`);
  return { passages: retriever.size, server: await serveRetriever(retriever, { topk, hostname: host, port, token }) };
}
