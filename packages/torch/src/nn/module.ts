import { noGrad } from '../autograd.js';
import { TorchError } from '../errors.js';
import type { Tensor } from '../tensor.js';
import { Parameter } from './parameter.js';

/**
 * A thing with parameters. Properties that are parameters, modules or arrays of modules are found by themselves, in the
 * order in which they were assigned; names are dotted paths, as in PyTorch.
 */
export abstract class Module {
  *namedParameters(prefix = ''): IterableIterator<[string, Parameter]> {
    for (const [key, value] of Object.entries(this)) yield* parametersIn(prefix + key, value);
  }

  *parameters(): IterableIterator<Parameter> {
    for (const [, parameter] of this.namedParameters()) yield parameter;
  }

  /** Weights by the names under which they are stored; a module may store them otherwise than it holds them. */
  *stateEntries(prefix = ''): IterableIterator<[string, Tensor]> {
    for (const [key, value] of Object.entries(this)) yield* entriesIn(prefix + key, value);
  }

  stateDict(): Map<string, Tensor> {
    return new Map(this.stateEntries());
  }

  /** Copies weights in by name. Every name must be there with the right shape; what is left over is an error too. */
  loadStateDict(state: ReadonlyMap<string, Tensor>): void {
    const missing: string[] = [];
    const wrong: string[] = [];
    const unused = new Set(state.keys());
    noGrad(() => {
      for (const [name, own] of this.stateEntries()) {
        const given = state.get(name);
        unused.delete(name);
        if (!given) missing.push(name);
        else if (given.shape.join() !== own.shape.join())
          wrong.push(`${name}: the module has [${own.shape.join(', ')}], the state [${given.shape.join(', ')}]`);
        else own.copy_(given);
      }
    });
    const problems = [
      missing.length ? `missing: ${missing.join(', ')}` : '',
      wrong.length ? `wrong shape: ${wrong.join('; ')}` : '',
      unused.size ? `not in the module: ${[...unused].join(', ')}` : '',
    ].filter(Boolean);
    if (problems.length) throw new TorchError(`loadStateDict: ${problems.join('. ')}`);
  }

  clearGradients(): void {
    for (const parameter of this.parameters()) parameter.clearGradient();
  }

  setTrainable(trainable: boolean): this {
    for (const parameter of this.parameters()) parameter.trainable = trainable;
    return this;
  }

  parameterCount(): number {
    const seen = new Set<Parameter>();
    let count = 0;
    for (const parameter of this.parameters()) {
      if (seen.has(parameter)) continue;
      seen.add(parameter);
      count += parameter.numel;
    }
    return count;
  }

  /** Frees the parameters of this module and of those inside it. */
  dispose(): void {
    for (const value of Object.values(this).flat(8))
      if (value instanceof Parameter || value instanceof Module) value.dispose();
  }
}

function* parametersIn(name: string, value: unknown): IterableIterator<[string, Parameter]> {
  if (value instanceof Parameter) yield [name, value];
  else if (value instanceof Module) yield* value.namedParameters(`${name}.`);
  else if (Array.isArray(value)) for (const [k, item] of value.entries()) yield* parametersIn(`${name}.${k}`, item);
}

function* entriesIn(name: string, value: unknown): IterableIterator<[string, Tensor]> {
  if (value instanceof Parameter) yield [name, value];
  else if (value instanceof Module) yield* value.stateEntries(`${name}.`);
  else if (Array.isArray(value)) for (const [k, item] of value.entries()) yield* entriesIn(`${name}.${k}`, item);
}
