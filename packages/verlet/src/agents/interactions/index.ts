/** Interactions: a user that is a program, chosen per row by `interaction_kwargs.name`. */
export { defaultName, loadInteractions } from './config.js';
export { gsm8kInteraction, judgeGsm8k } from './gsm8k.js';
export { interaction, registerInteraction } from './registry.js';
export type { Interaction, InteractionResponse } from './types.js';
