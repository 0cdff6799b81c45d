import { messageOf, withDeadline } from '../deadline.js';
import { RetrieverClient } from '../search/client.js';
import type { Retriever } from '../search/contract.js';
import {
  ANSWER_END,
  INFORMATION_END,
  INFORMATION_START,
  INVALID_ACTION,
  parseAction,
  passagesToString,
  SEARCH_END,
} from '../search/rules.js';
import type { Session } from '../session.js';
import type { AgentLoop } from './registry.js';

const clients = new Map<string, RetrieverClient>();

function clientFor(url: string): Retriever {
  let client = clients.get(url);
  if (!client) {
    client = new RetrieverClient({ url });
    clients.set(url, client);
  }
  return client;
}

/** Search-R1 against the retriever of `config.search.url`. */
export const searchAgent: AgentLoop = (session) => searchLoop(session, clientFor(session.config.search.url));

/**
 * Search-R1's loop: think, search or answer, read, again; after `max_turns` one more turn in which only an answer counts.
 * Unlike the original it keeps the sampled ids (a turn is stopped at its closing tag instead of cut and tokenised again),
 * never drops the front of the context the model has seen, and keeps the closing tag of a cut observation.
 */
export async function searchLoop(session: Session, retriever: Retriever): Promise<void> {
  const { maxTurns, maxStartLength, maxTurnLength } = session.config.search;
  const { metrics } = session.recorder;
  Object.assign(metrics, {
    'env/number_of_actions': 0,
    'env/number_of_valid_action': 0,
    'env/number_of_valid_search': 0,
    'env/finish_ratio': 0,
  });
  session.start({ keepLastPromptTokens: maxStartLength ?? session.config.maxPromptLength });
  for (let turn = 1; ; turn++) {
    const { text } = await session.generate({ stop: [SEARCH_END, ANSWER_END], maxTokens: maxTurnLength ?? undefined });
    const action = parseAction(text);
    const isLast = turn > maxTurns;
    add(metrics, 'env/number_of_actions');
    if (action.kind !== 'invalid') add(metrics, 'env/number_of_valid_action');
    metrics['env/ratio_of_valid_action'] = metrics['env/number_of_valid_action']! / metrics['env/number_of_actions']!;
    if (action.kind === 'answer') {
      metrics['env/finish_ratio'] = 1;
      session.recorder.extraFields.final_answer = action.answer;
      session.finish('answer');
      return;
    }
    if (isLast) {
      session.finish('max_turns');
      return;
    }
    if (action.kind === 'invalid') session.appendText(INVALID_ACTION);
    else {
      add(metrics, 'env/number_of_valid_search');
      appendInformation(session, await search(session, retriever, action.query));
    }
  }
}

async function search(session: Session, retriever: Retriever, query: string): Promise<string> {
  const { topk } = session.config.search;
  session.assertMayContinue();
  const started = performance.now();
  const record = {
    id: `search_${session.recorder.toolCalls.length}`,
    name: 'search',
    arguments: { query },
    turn: session.recorder.assistantTurns,
    truncated: false,
    reward: null,
  };
  const finished = () => {
    const seconds = (performance.now() - started) / 1000;
    session.recorder.timing.tool_calls += seconds;
    return seconds;
  };
  try {
    const [documents = []] = await withDeadline(
      'the search',
      session.config.search.timeoutSeconds,
      (signal) => retriever.retrieve([query], topk, signal),
      session.signal,
    );
    const response = passagesToString(documents);
    session.recorder.toolCalls.push({ ...record, status: 'ok', response, seconds: finished() });
    return response;
  } catch (error) {
    session.assertMayContinue();
    const response = `The search failed: ${messageOf(error)}`;
    session.recorder.toolCalls.push({ ...record, status: 'unavailable', response, seconds: finished() });
    return response;
  }
}

function appendInformation(session: Session, documents: string): void {
  const { tokenizer } = session;
  const encode = (text: string) => Array.from(tokenizer.encode(text, { addSpecialTokens: false }));
  const text = `${INFORMATION_START}${documents}${INFORMATION_END}`;
  const limit = session.config.search.maxObsLength;
  const ids = encode(text);
  if (limit === null || ids.length <= limit) {
    session.appendTokens(ids, text);
    return;
  }
  add(session.recorder.metrics, 'observations_truncated');
  const end = encode(INFORMATION_END);
  const cut = [...encode(`${INFORMATION_START}${documents}`).slice(0, Math.max(limit - end.length, 0)), ...end];
  session.appendTokens(cut, tokenizer.decode(cut));
}

function add(metrics: Record<string, number>, name: string): void {
  metrics[name] = (metrics[name] ?? 0) + 1;
}
