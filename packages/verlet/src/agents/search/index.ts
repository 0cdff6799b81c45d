/** Search-R1: the loop's text rules, clients and servers of the `POST /retrieve` contract. */
export { Bm25Retriever } from './bm25.js';
export { RetrieverClient, type RetrieverClientOptions } from './client.js';
export type { CorpusDocument, RetrievedDocument, RetrieveRequest, Retriever } from './contract.js';
export { readCorpus } from './corpus.js';
export { DenseRetriever, type EmbeddingsOptions } from './dense.js';
export {
  cutResponse,
  extractAnswer,
  parseAction,
  passagesToString,
  passagesToToolText,
  type SearchAction,
  searchPrompt,
} from './rules.js';
export { type RetrieverServer, type RetrieverServerOptions, retrieverApp, serveRetriever } from './server.js';
