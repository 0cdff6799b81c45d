import { z } from 'zod';
import { RetrieverClient } from '../../search/client.js';
import { passagesToToolText } from '../../search/rules.js';
import { defineTool } from '../define-tool.js';
import type { Tool } from '../types.js';

/** A search engine as a tool, over the same `POST /retrieve` servers as `search_agent`. */
export function searchTool({ url, topk = 3, name = 'search' }: { url: string; topk?: number; name?: string }): Tool {
  const client = new RetrieverClient({ url });
  return defineTool({
    name,
    description: 'Searches a corpus for passages about each query',
    input: z.object({ query_list: z.array(z.string()).min(1).describe('one or more complete search queries') }),
    execute: async ({ query_list }, { signal }) => {
      const hits = await client.retrieve(query_list, topk, signal);
      const text = JSON.stringify({ result: hits.map(passagesToToolText).join('\n---\n') });
      return { text, metrics: { queries: query_list.length, documents: hits.flat().length } };
    },
  });
}
