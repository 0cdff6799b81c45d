import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Tokenizer } from '../../models/tokenizer/index.js';
import vectors from '../fixtures/vectors.json' with { type: 'json' };
import { type AgentConfigInput, runAgents, searchTool, type Trajectory } from '../index.js';
import { type Script, ScriptedEngine, tinyTokenizer } from '../testing/index.js';
import {
  Bm25Retriever,
  cutResponse,
  DenseRetriever,
  extractAnswer,
  parseAction,
  passagesToString,
  passagesToToolText,
  type RetrievedDocument,
  RetrieverClient,
  type RetrieverServer,
  readCorpus,
  retrieverApp,
  searchPrompt,
  serveRetriever,
} from './index.js';

const vector = (area: string, name: string) =>
  vectors.find((candidate) => candidate.area === area && candidate.name === name) as unknown as {
    input: { result: RetrievedDocument[]; responses: string[]; json: object };
    expected: unknown;
  };

const corpus = [
  { id: '0', contents: '"Quorn River"\nThe Quorn River rises in the Hills of Tamm and flows to the sea.' },
  { id: '1', contents: '"Ada Vell"\nAda Vell wrote the novel The Glass Orchard in 1921.' },
  { id: '2', contents: '"The Glass Orchard"\nThe Glass Orchard is a novel about beekeepers.' },
  { id: '3', contents: '"Tamm"\nTamm is a town known for its bridges.' },
];

describe('text rules', () => {
  it('print passages as Search-R1 and as verl’s tool do (reference vectors)', () => {
    const searchR1 = vector('search_r1', 'passages_to_string');
    expect(passagesToString(searchR1.input.result)).toBe(searchR1.expected);
    const tool = vector('search_tool', 'passages_to_string_verl');
    expect(passagesToToolText(tool.input.result)).toBe(tool.expected);
  });

  it('cut at the tag that closes first; where an answer stands before a search, unlike the original, it is final', () => {
    const { input, expected } = vector('search_r1', 'cut_response');
    const original = expected as string[];
    expect(input.responses.map(cutResponse)).toEqual([original[0], 'a</answer>', original[2], original[3]]);
  });

  it('read the first complete action', () => {
    expect(parseAction('<think>x</think><search> who? </search><answer>y</answer>')).toEqual({
      kind: 'search',
      query: 'who?',
    });
    expect(parseAction('<answer>Tamm</answer><search>more</search>')).toEqual({ kind: 'answer', answer: 'Tamm' });
    expect(parseAction('<search>no end')).toEqual({ kind: 'invalid' });
  });

  it('take the answer from the response alone: the example in the prompt is nobody’s answer', () => {
    expect(searchPrompt('Where?')).toContain('<answer> Beijing </answer>');
    expect(extractAnswer('I do not know')).toBeUndefined();
    expect(extractAnswer('<answer>a</answer> no, <answer> b </answer>')).toBe('b');
  });
});

describe('the retriever', () => {
  const folder = mkdtempSync(join(tmpdir(), 'verlet-corpus-'));
  const file = join(folder, 'corpus.jsonl');
  let server: RetrieverServer;
  beforeAll(async () => {
    writeFileSync(file, `${corpus.map((document) => JSON.stringify(document)).join('\n')}\n`);
    server = await serveRetriever(await Bm25Retriever.from(readCorpus(file)), { port: 0 });
  });
  afterAll(async () => {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('keeps the contract (reference vector)', async () => {
    const { input } = vector('search_r1', 'retrieve_http_contract');
    const response = await fetch(server.url, {
      method: 'POST',
      body: JSON.stringify({ ...input.json, queries: ['Who wrote The Glass Orchard?', 'Quorn'] }),
    });
    const { result } = (await response.json()) as { result: RetrievedDocument[][] };
    expect(response.status).toBe(200);
    expect(result).toHaveLength(2);
    expect(result[0]![0]).toEqual({ document: corpus[1], score: expect.any(Number) });
    expect(result[0]!.map(({ score }) => score)).toEqual(result[0]!.map(({ score }) => score).sort((a, b) => b - a));
    expect(result[1]!.map(({ document }) => document.id)).toEqual(['0']);
  });

  it('gives bare documents without scores, a default topk, and readable refusals', async () => {
    const post = async (body: unknown) => {
      const response = await fetch(server.url, { method: 'POST', body: JSON.stringify(body) });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    expect(await post({ queries: ['novel'], topk: 1 })).toEqual({ status: 200, body: { result: [[corpus[2]]] } });
    expect(await post({ queries: ['the of'], topk: null })).toEqual({ status: 200, body: { result: [[]] } });
    expect(await post({ query: 'novel' })).toMatchObject({
      status: 422,
      body: { error: expect.stringContaining('queries') },
    });
  });

  it('names the line of a broken corpus', async () => {
    const broken = join(folder, 'broken.jsonl');
    writeFileSync(broken, '{"id": 1, "title": "T", "text": "x"}\n\n{"id": 2}\n');
    await expect(Bm25Retriever.from(readCorpus(broken))).rejects.toThrow(
      /broken\.jsonl:3: a document needs "contents"/,
    );
  });

  it('refuses to listen to the world without a token', async () => {
    await expect(serveRetriever(await Bm25Retriever.from(corpus), { hostname: '0.0.0.0', port: 0 })).rejects.toThrow(
      /without a token/,
    );
    const app = retrieverApp(await Bm25Retriever.from(corpus), { token: 'secret' });
    const request = { method: 'POST', body: JSON.stringify({ queries: ['novel'] }) };
    expect((await app.request('/retrieve', request)).status).toBe(401);
    expect((await app.request('/retrieve', { ...request, headers: { authorization: 'Bearer secret' } })).status).toBe(
      200,
    );
  });

  it('answers many rollouts that ask at once from one request, in order', async () => {
    let requests = 0;
    const counting = retrieverApp(await Bm25Retriever.from(corpus));
    const http = await listen(async (_, body) => {
      requests++;
      const response = await counting.request('/retrieve', { method: 'POST', body });
      return { status: response.status, body: await response.text() };
    });
    const client = new RetrieverClient({ url: http.url });
    const answers = await Promise.all(
      ['Tamm bridges', 'beekeepers', 'sea'].map((query) => client.retrieve([query], 1)),
    );
    expect(answers.map(([hits]) => hits![0]!.document.id)).toEqual(['3', '2', '0']);
    expect(requests).toBe(1);
    http.close();
  });

  it('is asked again when it stumbles, and not when it refuses', async () => {
    const answers = [503, 502, 200];
    const http = await listen(() => {
      const status = answers.shift() ?? 400;
      return { status, body: status === 200 ? JSON.stringify({ result: [[corpus[0]]] }) : 'busy' };
    });
    const client = new RetrieverClient({ url: http.url, retryDelaySeconds: 0.001 });
    expect(await client.retrieve(['x'], 1)).toEqual([[{ document: corpus[0], score: 0 }]]);
    await expect(client.retrieve(['x'], 1)).rejects.toThrow(/does not answer: HTTP 400 busy/);
    http.close();
  });

  it('finds by embeddings of any server', async () => {
    const topics = ['river', 'novel', 'bridges'];
    const http = await listen((_, body) => {
      const { input } = JSON.parse(body) as { input: string[] };
      const data = input.map((text, index) => ({
        index,
        embedding: topics.map((topic) => (text.toLowerCase().includes(topic) ? 1 : 0.01)),
      }));
      return { status: 200, body: JSON.stringify({ data: data.reverse() }) };
    });
    const dense = await DenseRetriever.from(corpus, {
      url: http.url,
      model: 'topics',
      batchSize: 3,
      queryPrefix: 'query: ',
    });
    const [hits] = await dense.retrieve(['a town with bridges'], 2);
    expect(hits!.map(({ document }) => document.id)[0]).toBe('3');
    expect(hits![0]!.score).toBeCloseTo(1, 2);
    http.close();
    await expect(dense.retrieve(['x'], 1)).rejects.toThrow(/embeddings endpoint .* cannot be reached/);
  });

  describe('with search_agent', () => {
    let tokenizer: Tokenizer;
    let endTokenId: number;
    beforeAll(async () => {
      ({ tokenizer, endTokenId } = await tinyTokenizer());
    });
    const play = async (script: Script, search: AgentConfigInput['search'] = {}, url = server.url) => {
      const engine = new ScriptedEngine({ tokenizer, endTokenId, script });
      const row = {
        prompt: [{ role: 'user', content: searchPrompt('Who wrote The Glass Orchard?') }],
        agent_name: 'search_agent',
      };
      const config = {
        responseLength: 4000,
        maxPromptLength: 4000,

        search: { url, maxStartLength: 4000, maxTurns: 2, timeoutSeconds: 0.5, ...search },
      };
      const { trajectories, metrics } = await runAgents([row], { engine, tokenizer, config });
      return { trajectory: trajectories[0]!, metrics, engine };
    };
    const story = ({ segments }: Trajectory) =>
      segments
        .map(({ kind, tokenIds }) =>
          kind === 'sampled' ? tokenizer.decode(tokenIds) : `«${tokenizer.decode(tokenIds)}»`,
        )
        .join('');
    const ask: Script = (prompt) =>
      prompt.includes('Ada Vell wrote')
        ? '<think>found</think><answer> Ada Vell </answer> tail'
        : '<search> Glass Orchard author </search> made up';

    it('searches, reads, answers; information is masked and nothing is tokenised twice', async () => {
      const { trajectory, metrics } = await play(ask);
      expect(story(trajectory)).toMatch(
        /^<search> Glass Orchard author <\/search>«\n\n<information>Doc 1\(Title: "[^«»]*<\/information>\n\n»<think>found<\/think><answer> Ada Vell <\/answer>$/,
      );
      expect(trajectory.responseMask).toEqual(
        trajectory.segments.flatMap(({ kind, tokenIds }) => tokenIds.map(() => (kind === 'sampled' ? 1 : 0))),
      );
      expect(trajectory).toMatchObject({ endReason: 'answer', extraFields: { final_answer: 'Ada Vell' } });
      expect(metrics).toMatchObject({
        'env/number_of_actions/mean': 2,
        'env/number_of_valid_action/mean': 2,
        'env/number_of_valid_search/mean': 1,
        'env/finish_ratio/mean': 1,
        'env/ratio_of_valid_action/mean': 1,
      });
      expect(metrics['state_tokens/coverage']).toBeLessThan(1);
    });

    it('says what was wrong with an invalid action, and gives one last turn without search', async () => {
      const { trajectory } = await play(() => 'hm');
      expect(trajectory).toMatchObject({ endReason: 'max_turns', assistantTurns: 3, userTurns: 2 });
      expect(story(trajectory)).toContain('«\nMy previous action is invalid.');
      expect(trajectory.metrics).toMatchObject({
        'env/number_of_actions': 3,
        'env/number_of_valid_action': 0,
        'env/finish_ratio': 0,
      });
    });

    it('cuts long information but keeps its closing tag', async () => {
      const { trajectory } = await play(ask, { maxObsLength: 30, maxTurns: 1 });
      const observation = trajectory.segments.find(({ kind }) => kind === 'injected')!.tokenIds;
      expect(observation).toHaveLength(30);
      expect(tokenizer.decode(observation)).toMatch(/^\n\n<information>Doc 1.*<\/information>\n\n$/s);
    });

    it('keeps the end of a prompt that is longer than max_start_length', async () => {
      const { trajectory } = await play(() => '<answer>x</answer>', { maxStartLength: 20 });
      expect(trajectory.promptIds).toHaveLength(20);
      expect(tokenizer.decode(trajectory.promptIds).endsWith('<|im_start|>assistant\n')).toBe(true);
      expect(trajectory.metrics.prompt_truncated).toBe(1);
    });

    it('goes on when the retriever is dead', async () => {
      const { trajectory, metrics } = await play(
        (prompt) => (prompt.includes('search failed') ? '<answer>?</answer>' : '<search>x</search>'),
        {},
        'http://127.0.0.1:9/retrieve',
      );
      expect(trajectory.endReason).toBe('answer');
      expect(metrics['agent/tool_status/unavailable']).toBe(1);
    });

    it('and as a tool for tool_agent', async () => {
      const script: Script = (prompt) =>
        prompt.includes('<tool_response>')
          ? 'Ada Vell'
          : '<tool_call>{"name": "search", "arguments": {"query_list": ["Ada Vell", "Tamm bridges"]}}</tool_call>';
      const { trajectories } = await runAgents(
        [{ prompt: [{ role: 'user', content: 'Who?' }], agent_name: 'tool_agent' }],
        {
          engine: new ScriptedEngine({ tokenizer, endTokenId, script }),
          tokenizer,
          config: { responseLength: 4000, maxPromptLength: 4000, maxToolResponseLength: 2000 },
          tools: [searchTool({ url: server.url, topk: 1 })],
        },
      );
      expect(JSON.parse(trajectories[0]!.toolCalls[0]!.response).result).toBe(
        `Doc 1 (Title: "Ada Vell")\n${corpus[1]!.contents.split('\n')[1]}\n---\nDoc 1 (Title: "Tamm")\n${corpus[3]!.contents.split('\n')[1]}`,
      );
    });
  });
});

type Reply = { status: number; body: string };

async function listen(
  answer: (path: string, body: string) => Reply | Promise<Reply>,
): Promise<{ url: string; close: () => void }> {
  const server: Server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const reply = await answer(request.url ?? '/', body);
    response.writeHead(reply.status, { 'content-type': 'application/json' }).end(reply.body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/retrieve`, close };
}
