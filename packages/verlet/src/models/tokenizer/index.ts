/** Text to tokens and back, conversations to prompts, and making a tokenizer from text. */
export { type TrainBpeOptions, trainBpe } from './bpe-trainer.js';
export { ChatTemplate, chatTemplate } from './chat-template.js';
export { CHATML_TEMPLATE } from './chatml-template.js';
export { type ClosedVocabularyOptions, closedVocabulary } from './closed-vocabulary.js';
export type { IncrementalDetokenizer } from './detokenizer.js';
export { type DecodeOptions, type EncodeOptions, Tokenizer } from './tokenizer.js';
export type { ChatMessage, ChatTemplateOptions, ContentPart, ToolCall, ToolSchema } from './types.js';
