/** Batches in a seeded order that can be saved and taken up again. */
export { ConcatSource } from './concat.js';
export { DataLoader, type ItemSource, type LoaderOptions, type LoaderState } from './loader.js';
export { permutation, sampleWithoutReplacement, uniform } from './random.js';
export {
  type Curriculum,
  type CurriculumContext,
  CurriculumSampler,
  EpochSampler,
  MixingSampler,
  type SampleFeedback,
  type Sampler,
} from './sampler.js';
