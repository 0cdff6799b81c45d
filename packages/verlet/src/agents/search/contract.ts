/** What clients and servers of `POST /retrieve` say to each other (Search-R1's contract). */
import { z } from 'zod';

export interface CorpusDocument {
  id: string;
  /** The title in the first line, the text behind it. */
  contents: string;
}

export interface RetrievedDocument {
  document: CorpusDocument;
  score: number;
}

export const retrieveRequestSchema = z.object({
  queries: z.array(z.string()),
  /** null or absent: the server's default. */
  topk: z.number().int().positive().nullish(),
  return_scores: z.boolean().default(false),
});

export type RetrieveRequest = z.input<typeof retrieveRequestSchema>;

const documentSchema = z.looseObject({ id: z.union([z.string(), z.number()]).optional(), contents: z.string() });

/** With scores, or bare documents when `return_scores` was false. */
export const retrieveResponseSchema = z.object({
  result: z.array(z.array(z.union([z.object({ document: documentSchema, score: z.number() }), documentSchema]))),
});

export type RetrieveResponse = z.infer<typeof retrieveResponseSchema>;

export interface Retriever {
  /** One list of hits per query, best first. */
  retrieve(queries: readonly string[], topk: number, signal?: AbortSignal): Promise<RetrievedDocument[][]>;
}
