import { Command, InvalidArgumentError } from 'commander';
import { Bm25Retriever, DenseRetriever, readCorpus, serveRetriever } from '../../agents/search/index.js';

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

/** `verlet retriever serve CORPUS`: a search engine for `search_agent` and the search tool. */
export function retrieverCommand(): Command {
  const command = new Command('retriever').description('search engines for agents');
  command
    .command('serve')
    .description('serve POST /retrieve over a JSONL corpus: BM25, or dense with --embeddings-url')
    .argument('<corpus>', 'JSONL file: {"id", "contents"} or {"id", "title", "text"} per line')
    .option('--port <number>', 'port to listen on, 0 for a free one', wholeNumber, 8000)
    .option('--host <address>', 'address to listen on; others than loopback need --token', '127.0.0.1')
    .option('--topk <number>', 'passages per query when a request does not say', wholeNumber, 3)
    .option('--token <secret>', 'bearer token that clients must send (default: $VERLET_RETRIEVER_TOKEN)')
    .option('--embeddings-url <url>', 'OpenAI-style embeddings endpoint; switches to dense retrieval')
    .option('--embeddings-model <name>', 'model name sent to that endpoint', 'intfloat/e5-base-v2')
    .option('--query-prefix <text>', 'put before queries', 'query: ')
    .option('--passage-prefix <text>', 'put before passages', 'passage: ')
    .action(serveCorpus);
  return command;
}

async function serveCorpus(corpus: string, options: ServeOptions): Promise<void> {
  const token = options.token ?? process.env.VERLET_RETRIEVER_TOKEN;
  const retriever = options.embeddingsUrl
    ? await DenseRetriever.from(
        readCorpus(corpus),
        {
          url: options.embeddingsUrl,
          model: options.embeddingsModel,
          queryPrefix: options.queryPrefix,
          passagePrefix: options.passagePrefix,
        },
        (embedded) => process.stderr.write(`\rembedded ${embedded} passages`),
      )
    : await Bm25Retriever.from(readCorpus(corpus));
  const server = await serveRetriever(retriever, {
    topk: options.topk,
    hostname: options.host,
    port: options.port,
    ...(token ? { token } : {}),
  });
  console.log(`${retriever.size} passages at ${server.url}`);
  const stop = () => {
    server.close().catch((error: Error) => console.error(error.message));
  };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
}

function wholeNumber(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError('must be a whole number');
  return value;
}
