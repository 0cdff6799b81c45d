/** For tests of one's own loops and tools: a policy that is a function, and a tokenizer for it. */
export { type Script, ScriptedEngine, type ScriptedEngineOptions } from './scripted-engine.js';
export { type TinyTokenizerOptions, tinyTokenizer } from './tiny-tokenizer.js';
