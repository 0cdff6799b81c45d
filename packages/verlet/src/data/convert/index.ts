/** Conversation files of other tools as training rows: one per assistant turn. */
export { type Conversation, readConversation } from './conversation.js';
export { type ConvertOptions, type ConvertReport, convertConversations, samplesOf, type TurnSample } from './turns.js';
