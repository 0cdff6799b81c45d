/** Modules with named parameters and the chunked vocabulary head. */
export * from './head.js';
export * from './head-step.js';
export * from './layers.js';
export * from './module.js';
export * from './parameter.js';
