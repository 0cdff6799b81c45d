/**
 * AdamW (Loshchilov & Hutter) through libtorch's fused kernel. Parameters in 16-bit floats keep a float32 master copy: steps of
 * 1e-6 of a weight are below bfloat16's resolution and would be lost.
 */
import { noGrad } from '../autograd.js';
import { full, zeros } from '../create.js';
import { isFloating } from '../dtype.js';
import * as aten from '../generated/ops.js';
import { openSafetensors, saveSafetensors } from '../safetensors/index.js';
import { scope } from '../scope.js';
import type { Tensor } from '../tensor.js';

export interface AdamWOptions {
  lr?: number;
  betas?: readonly [number, number];
  eps?: number;
  weightDecay?: number;
  /** Says which parameters do not decay (biases, norms). By default all decay, as in verl. */
  noDecay?: (name: string, parameter: Tensor) => boolean;
}

/** What is kept per parameter. */
interface Entry {
  name: string;
  parameter: Tensor;
  /** What the kernel updates: the parameter itself, or its float32 copy. */
  master: Tensor;
  hasCopy: boolean;
  expAvg: Tensor;
  expAvgSq: Tensor;
  decays: boolean;
  step: number;
}

/** The part of the state that is not tensors. */
export interface AdamWState {
  lr: number;
  betas: [number, number];
  eps: number;
  weightDecay: number;
  steps: Record<string, number>;
}

export interface OptimizerStateDict {
  /** `<parameter>.exp_avg`, `<parameter>.exp_avg_sq` and, where there is one, `<parameter>.master`. Not copies. */
  tensors: Map<string, Tensor>;
  state: AdamWState;
}

/** Gradients are cast to float32 in groups of about so many elements, so that they never stand twice in memory as a whole. */
const groupElements = 64 * 1024 * 1024;
const metadataKey = 'adamw';

/**
 * @example
 * const optimizer = new AdamW(model.namedParameters(), { lr: 1e-6, weightDecay: 0.01 });
 * loss.backward();
 * optimizer.step();
 * optimizer.zeroGrad();
 */
export class AdamW {
  /** Taken by the next step; set it from a schedule. */
  lr: number;
  readonly betas: [number, number];
  readonly eps: number;
  readonly weightDecay: number;
  private readonly entries = new Map<string, Entry>();

  constructor(parameters: Iterable<readonly [string, Tensor]>, options: AdamWOptions = {}) {
    this.lr = options.lr ?? 1e-3;
    this.betas = [...(options.betas ?? [0.9, 0.999])];
    this.eps = options.eps ?? 1e-8;
    this.weightDecay = options.weightDecay ?? 0.01;
    checkOptions(this);
    try {
      noGrad(() => {
        for (const [name, parameter] of parameters) this.admit(name, parameter, options);
      });
    } catch (error) {
      this.dispose();
      throw error;
    }
    if (this.entries.size === 0) throw new Error('AdamW: there are no parameters to train');
  }

  private admit(name: string, parameter: Tensor, options: AdamWOptions): void {
    if (this.entries.has(name)) throw new Error(`AdamW: two parameters are named '${name}'`);
    if (!isFloating(parameter.dtype))
      throw new TypeError(`AdamW: parameter '${name}' is ${parameter.dtype}, not a float`);
    const hasCopy = parameter.dtype === 'bfloat16' || parameter.dtype === 'float16';
    const master = (hasCopy ? parameter.to('float32') : parameter.detach()).keep();
    const like = { dtype: master.dtype, device: parameter.device };
    this.entries.set(name, {
      name,
      parameter,
      master,
      hasCopy,
      expAvg: zeros(parameter.shape, like).keep(),
      expAvgSq: zeros(parameter.shape, like).keep(),
      decays: !options.noDecay?.(name, parameter),
      step: 0,
    });
  }

  /**
   * One update. Gradients are those given by name (any float dtype), else each parameter's own `.grad`; a parameter without
   * one is left as it is.
   */
  step(grads?: ReadonlyMap<string, Tensor>): void {
    for (const [name, grad] of grads ?? []) this.checkGradient(name, grad);
    noGrad(() => {
      let group: Entry[] = [];
      let elements = 0;
      for (const entry of this.entries.values()) {
        if (grads && !grads.has(entry.name)) continue;
        group.push(entry);
        elements += entry.parameter.numel;
        if (elements < groupElements) continue;
        this.update(group, grads);
        group = [];
        elements = 0;
      }
      this.update(group, grads);
    });
  }

  private update(group: Entry[], grads: ReadonlyMap<string, Tensor> | undefined): void {
    scope(() => {
      const batches = new Map<string, { entries: Entry[]; grads: Tensor[] }>();
      for (const entry of group) {
        const grad = grads ? grads.get(entry.name)! : entry.parameter.grad;
        if (!grad) continue;
        const device = entry.master.device;
        // The kernel takes one device, dtype, decay and step count at a time; as a rule there is one batch, or two.
        const key = `${device} ${entry.master.dtype} ${entry.decays} ${entry.step + 1}`;
        let batch = batches.get(key);
        if (!batch) {
          batch = { entries: [], grads: [] };
          batches.set(key, batch);
        }
        batch.entries.push(entry);
        batch.grads.push(grad.to({ dtype: entry.master.dtype, device }));
      }
      for (const batch of batches.values()) this.updateBatch(batch.entries, batch.grads);
    });
  }

  private updateBatch(entries: Entry[], grads: Tensor[]): void {
    const first = entries[0]!;
    for (const entry of entries) entry.step++;
    const step = full([], first.step, { device: first.master.device });
    aten._fused_adamw_(
      entries.map((entry) => entry.master),
      grads,
      entries.map((entry) => entry.expAvg),
      entries.map((entry) => entry.expAvgSq),
      [],
      entries.map(() => step),
      this.lr,
      this.betas[0],
      this.betas[1],
      first.decays ? this.weightDecay : 0,
      this.eps,
      false,
      false,
    );
    const copied = entries.filter((entry) => entry.hasCopy);
    if (copied.length > 0)
      aten._foreach_copy_(
        copied.map((entry) => entry.parameter),
        copied.map((entry) => entry.master),
      );
  }

  /** Forgets the gradients of all parameters. */
  zeroGrad(): void {
    for (const { parameter } of this.entries.values()) parameter.setGrad(null);
  }

  /** Takes the parameters' present values as master weights: after other weights were loaded into the model. */
  syncMasterWeights(): void {
    noGrad(() => {
      for (const entry of this.entries.values()) if (entry.hasCopy) entry.master.copy_(entry.parameter);
    });
  }

  /** Moves the state (not the parameters) to another device: to the CPU while it is not needed, and back before `step`. */
  moveState(device: string): void {
    for (const entry of this.entries.values()) {
      entry.expAvg = moved(entry.expAvg, device);
      entry.expAvgSq = moved(entry.expAvgSq, device);
      if (entry.hasCopy) entry.master = moved(entry.master, device);
    }
  }

  stateDict(): OptimizerStateDict {
    const tensors = new Map<string, Tensor>();
    const steps: Record<string, number> = {};
    for (const entry of this.entries.values()) {
      steps[entry.name] = entry.step;
      tensors.set(`${entry.name}.exp_avg`, entry.expAvg);
      tensors.set(`${entry.name}.exp_avg_sq`, entry.expAvgSq);
      if (entry.hasCopy) tensors.set(`${entry.name}.master`, entry.master);
    }
    const { lr, betas, eps, weightDecay } = this;
    return { tensors, state: { lr, betas: [...betas], eps, weightDecay, steps } };
  }

  /** Copies a state into this optimizer; its parameters must be the same by name and shape. Loads all or nothing. */
  loadStateDict(dict: { tensors: { get(name: string): Tensor | undefined }; state: AdamWState }): void {
    scope(() =>
      noGrad(() => {
        const copies: [Tensor, Tensor][] = [];
        for (const entry of this.entries.values()) {
          if (dict.state.steps[entry.name] === undefined)
            throw new Error(`AdamW: the state knows no parameter '${entry.name}'`);
          const parts: [string, Tensor][] = [
            ['exp_avg', entry.expAvg],
            ['exp_avg_sq', entry.expAvgSq],
          ];
          if (entry.hasCopy) parts.push(['master', entry.master]);
          for (const [part, target] of parts) {
            const source = dict.tensors.get(`${entry.name}.${part}`);
            if (!source) throw new Error(`AdamW: the state has no '${entry.name}.${part}'`);
            if (source.shape.join() !== target.shape.join())
              throw new Error(
                `AdamW: '${entry.name}.${part}' is [${source.shape}] in the state, [${target.shape}] here`,
              );
            copies.push([target, source]);
          }
        }
        const strangers = Object.keys(dict.state.steps).filter((name) => !this.entries.has(name));
        if (strangers.length > 0)
          throw new Error(
            `AdamW: the state has parameters that are not trained here: ${strangers.slice(0, 5).join(', ')}`,
          );
        for (const [target, source] of copies) target.copy_(source);
        for (const entry of this.entries.values()) {
          entry.step = dict.state.steps[entry.name]!;
          if (entry.hasCopy) entry.parameter.copy_(entry.master);
        }
        this.lr = dict.state.lr;
      }),
    );
  }

  /** Writes the state to one safetensors file, atomically; what is not tensors goes into its metadata as JSON. */
  save(file: string): void {
    const { tensors, state } = this.stateDict();
    saveSafetensors(file, tensors, { metadata: { [metadataKey]: JSON.stringify(state) } });
  }

  load(file: string): void {
    using reader = openSafetensors(file);
    const state = reader.metadata[metadataKey];
    if (state === undefined) throw new Error(`${file} is not the state of an AdamW optimizer`);
    const get = (name: string): Tensor | undefined => (reader.has(name) ? reader.tensor(name) : undefined);
    scope(() => this.loadStateDict({ tensors: { get }, state: JSON.parse(state) as AdamWState }));
  }

  /** Frees the state. */
  dispose(): void {
    for (const { master, expAvg, expAvgSq } of this.entries.values())
      for (const tensor of [master, expAvg, expAvgSq]) tensor.dispose();
    this.entries.clear();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Before anything is updated: a step is taken as a whole or not at all. */
  private checkGradient(name: string, grad: Tensor): void {
    const entry = this.entries.get(name);
    if (!entry) throw new Error(`AdamW: a gradient was given for '${name}', which is not trained here`);
    if (grad.shape.join() !== entry.parameter.shape.join())
      throw new Error(`AdamW: the gradient of '${name}' is [${grad.shape}], the parameter [${entry.parameter.shape}]`);
  }
}

function checkOptions({ lr, betas, eps, weightDecay }: AdamW): void {
  const claim = (ok: boolean, what: string) => {
    if (!ok) throw new RangeError(`AdamW: ${what}`);
  };
  claim(lr >= 0, `lr must not be negative, got ${lr}`);
  for (const beta of betas) claim(beta >= 0 && beta < 1, `betas must lie in [0, 1), got ${betas}`);
  claim(eps >= 0, `eps must not be negative, got ${eps}`);
  claim(weightDecay >= 0, `weightDecay must not be negative, got ${weightDecay}`);
}

function moved(tensor: Tensor, device: string): Tensor {
  const there = noGrad(() => tensor.to(device)).keep();
  if (there !== tensor) tensor.dispose();
  return there;
}
