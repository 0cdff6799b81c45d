import { gsm8kInteraction } from './gsm8k.js';
import type { Interaction } from './types.js';

const interactions = new Map<string, Interaction>();

export function registerInteraction<Instance>(partner: Interaction<Instance>): void {
  if (interactions.has(partner.name)) {
    throw new Error(`an interaction named ${JSON.stringify(partner.name)} is already registered; names must differ`);
  }
  interactions.set(partner.name, partner as Interaction);
}

export function interaction(name: string): Interaction {
  const partner = interactions.get(name);
  if (!partner) {
    throw new Error(
      `interaction_kwargs.name is ${JSON.stringify(name)}, but the interactions are: ${[...interactions.keys()].join(', ')}`,
    );
  }
  return partner;
}

registerInteraction(gsm8kInteraction);
