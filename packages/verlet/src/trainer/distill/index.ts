/** Learning from a teacher on one's own samples. */
export { distill } from './distill.js';
export { DistilledActor } from './distilled-actor.js';
export { Teachers } from './teachers.js';
