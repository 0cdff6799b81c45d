/** Judges: rewards given by another model, by rubric, by ranking, or by a reward model. */
export { JudgeCache } from './cache.js';
export { ChatClient, type ChatClientOptions } from './chat-client.js';
export { createJudgeScorer, LlmJudge, type LlmJudgeOptions } from './llm-judge.js';
export { conversationOf, createRewardModelScorer } from './reward-model.js';
