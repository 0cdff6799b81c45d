import type { IncrementalChatTemplate } from '../chat-template.js';
import type { ChatTokenizer } from '../types.js';
import type { RecordedCall } from './call-tree.js';
import { ContextOverflowError } from './types.js';

/** Where a call stands among those before it, and the tokens it starts from. */
export interface Place {
  /** The call that it goes on from. */
  parent: RecordedCall | undefined;
  template: IncrementalChatTemplate;
  /** The whole prompt of a conversation that begins; what was added after the parent's answer otherwise. */
  injectedIds: number[];
  promptIds: number[];
  /** How many of the prompt's ids are the parent's own. */
  reused: number;
  /** Tokens that may still be sampled. */
  room: number;
  /** The beginning of the answer that was written for the model. */
  forced: string;
}

/** The beginning of a forced call is context like everything else that the model did not write. */
export function withForcedCall(place: Place, forced: string, tokenizer: ChatTokenizer): Place {
  if (forced === '') return place;
  const ids = Array.from(tokenizer.encode(forced, { addSpecialTokens: false }));
  const room = place.room - ids.length;
  if (room <= 0) throw overflow('a forced tool call leaves no room for its arguments');
  return {
    ...place,
    promptIds: [...place.promptIds, ...ids],
    injectedIds: [...place.injectedIds, ...ids],
    room,
    forced,
  };
}

export function overflow(what: string): ContextOverflowError {
  return new ContextOverflowError(`This conversation is too long for the policy: ${what}`);
}
