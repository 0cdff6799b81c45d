/**
 * Low-rank adapters on a frozen model. The names of modules and the rules that pick them are PEFT's, so that a target list,
 * a pattern or an adapter folder means the same here and there.
 */
import { type LazyTensor, nn, noGrad, scope, type Tensor } from '@verlet/torch';
import { UnsupportedModelError } from './config.js';
import { LowRankAdapter, PackedLinear } from './linear.js';

export interface LoraOptions {
  rank: number;
  /** The adapter counts `alpha / rank` (`alpha / sqrt(rank)` with `rslora`). */
  alpha?: number;
  /**
   * `all-linear`, or a pattern that a module's whole path must match, or names that its path must end with.
   * Paths are those of the checkpoint: `model.layers.0.self_attn.q_proj`.
   */
  targetModules?: string | RegExp | readonly string[];
  excludeModules?: string | RegExp | readonly string[] | null;
  rslora?: boolean;
}

/** What an adapter was made with; written to and read from `adapter_config.json`. */
export interface LoraConfig {
  rank: number;
  alpha: number;
  rslora: boolean;
  targetModules: string | string[];
  excludeModules: string | string[] | null;
}

/** One linear map inside a packed one, under the name that checkpoints give it. */
export interface LinearPlace {
  path: string;
  linear: PackedLinear;
  part: number;
}

/** Heads stay whole: the vocabulary head runs in chunks on its plain weight, and a value head starts from nothing anyway. */
const heads = new Set(['lm_head', 'score']);

/** Every linear map of a model by its checkpoint path. */
export function* linearPlaces(module: nn.Module, prefix = ''): IterableIterator<LinearPlace> {
  for (const [key, value] of Object.entries(module)) {
    if (value instanceof PackedLinear)
      for (const [part, { name }] of value.parts.entries()) yield { path: prefix + name, linear: value, part };
    else if (value instanceof nn.Module) yield* linearPlaces(value, `${prefix}${key}.`);
    else if (Array.isArray(value))
      for (const [k, item] of value.entries())
        if (item instanceof nn.Module) yield* linearPlaces(item, `${prefix}${key}.${k}.`);
  }
}

type Selector = string | RegExp | readonly string[];

function selects(selector: Selector, path: string): boolean {
  if (Array.isArray(selector)) return selector.some((name) => path === name || path.endsWith(`.${name}`));
  const pattern = selector instanceof RegExp ? selector.source : (selector as string);
  return new RegExp(`^(?:${pattern})$`).test(path);
}

function plain(selector: Selector): string | string[] {
  if (selector instanceof RegExp) return selector.source;
  return typeof selector === 'string' ? selector : [...selector];
}

/** The adapters of one model: switch them, merge them, find them. Made by `applyLora` and `loadAdapter`. */
export class Lora {
  private originals = new Map<string, Tensor>();

  constructor(
    readonly config: LoraConfig,
    readonly places: readonly LinearPlace[],
  ) {}

  /** Adapters by module path. */
  *adapters(): IterableIterator<[string, LowRankAdapter]> {
    for (const { path, linear, part } of this.places) yield [path, linear.adapters[part]!];
  }

  get enabled(): boolean {
    return this.places.some(({ linear, part }) => linear.adapters[part]!.enabled);
  }

  set enabled(on: boolean) {
    if (this.merged) throw new Error('the adapter is merged into the weights; call unmerge() before switching it');
    for (const [, adapter] of this.adapters()) adapter.enabled = on;
  }

  /** Runs `body` on the base model: the reference policy of an adapted one. */
  without<T>(body: () => T): T {
    const before = this.enabled;
    this.enabled = false;
    try {
      return body();
    } finally {
      this.enabled = before;
    }
  }

  get merged(): boolean {
    return this.originals.size > 0;
  }

  /** Adds the adapters into the weights. Keeps a copy of those, so that `unmerge` gives back the same bits. */
  merge(): void {
    if (this.merged) return;
    noGrad(() =>
      scope(() => {
        for (const { path, linear, part } of this.places) {
          const weight = linear.partWeight(part);
          this.originals.set(path, weight.clone().keep());
          weight.copy_(linear.mergedWeight(part));
          linear.adapters[part]!.enabled = false;
        }
      }),
    );
  }

  unmerge(): void {
    noGrad(() =>
      scope(() => {
        for (const { path, linear, part } of this.places) {
          const original = this.originals.get(path);
          if (!original) continue;
          linear.partWeight(part).copy_(original);
          linear.adapters[part]!.enabled = true;
          original.dispose();
        }
      }),
    );
    this.originals.clear();
  }

  /** The model's weights as it computes now, adapters added in, each made when it is asked for; the model is left alone. */
  *mergedEntries(model: nn.Module): IterableIterator<[string, Tensor | LazyTensor]> {
    const added = new Map(this.enabled ? this.places.map((place) => [`${place.path}.weight`, place]) : []);
    for (const [name, value] of model.stateEntries()) {
      const place = added.get(name);
      const load = () => place!.linear.mergedWeight(place!.part);
      yield [name, place ? { dtype: value.dtype, shape: value.shape, load } : value];
    }
  }
}

const applied = new WeakMap<nn.Module, Lora>();

/** The adapters that a model carries, or null. */
export function loraOf(model: nn.Module): Lora | null {
  return applied.get(model) ?? null;
}

/** Switches a model's adapters; off, it is the model it was before. */
export function setAdapterEnabled(model: nn.Module, on: boolean): void {
  const lora = loraOf(model);
  if (!lora) throw new Error('the model has no adapter to switch');
  lora.enabled = on;
}

/** Puts adapters onto the places given, freezes everything else (but a value head), and remembers them with the model. */
export function attach(
  model: nn.Module,
  config: LoraConfig,
  places: readonly (LinearPlace & { rank: number; scale: number })[],
): Lora {
  if (applied.has(model)) throw new Error('the model already has an adapter; one at a time is supported');
  model.setTrainable(false);
  for (const { linear, part, rank, scale } of places)
    linear.adapters[part] = new LowRankAdapter(linear.inFeatures, linear.parts[part]!.outFeatures, rank, scale, {
      dtype: linear.weight.dtype,
      device: linear.weight.device,
    });
  // A fresh value head has to be learnt; PEFT trains it beside the adapters as well.
  for (const { path, linear } of linearPlaces(model)) if (path === 'score') linear.setTrainable(true);
  const lora = new Lora(config, places);
  applied.set(model, lora);
  return lora;
}

export function adapterScale(rank: number, alpha: number, rslora: boolean): number {
  return alpha / (rslora ? Math.sqrt(rank) : rank);
}

/**
 * Puts fresh adapters on a model and freezes the rest. Training starts from the base model: fresh adapters add nothing.
 *
 * @example
 * const lora = applyLora(model, { rank: 16, alpha: 32, targetModules: 'all-linear' });
 * const reference = lora.without(() => score(model, batch));
 */
export function applyLora(model: nn.Module, options: LoraOptions): Lora {
  const { rank, alpha = 16, targetModules = 'all-linear', excludeModules = null, rslora = false } = options;
  if (!Number.isInteger(rank) || rank < 1)
    throw new UnsupportedModelError(`LoRA: the rank must be a whole number above 0, it is ${rank}`);
  const all = [...linearPlaces(model)];
  const wanted = all.filter(
    ({ path }) =>
      (targetModules === 'all-linear' ? !heads.has(path) : selects(targetModules, path)) &&
      !(excludeModules && selects(excludeModules, path)),
  );
  const head = wanted.find(({ path }) => heads.has(path));
  if (head) throw new UnsupportedModelError(`LoRA: an adapter on '${head.path}' is not supported; exclude it`);
  if (wanted.length === 0) {
    const names = new Set(all.map(({ path }) => path.split('.').at(-1)!));
    throw new UnsupportedModelError(
      `LoRA: no module matches target_modules ${String(targetModules)}${excludeModules ? ` without ${String(excludeModules)}` : ''}. The model has: ${[...names].join(', ')}`,
    );
  }
  const config: LoraConfig = {
    rank,
    alpha,
    rslora,
    // PEFT writes the names that 'all-linear' stood for; a reader of the folder need not know the model.
    targetModules:
      targetModules === 'all-linear'
        ? [...new Set(wanted.map(({ path }) => path.split('.').at(-1)!))].sort()
        : plain(targetModules),
    excludeModules: excludeModules ? plain(excludeModules) : null,
  };
  const scale = adapterScale(rank, alpha, rslora);
  return attach(
    model,
    config,
    wanted.map((place) => ({ ...place, rank, scale })),
  );
}
