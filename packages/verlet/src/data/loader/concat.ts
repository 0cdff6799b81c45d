import type { ItemSource } from './loader.js';

/** Several sources as one, numbered through. */
export class ConcatSource<Item extends { index: number }> implements ItemSource<Item> {
  readonly length: number;

  constructor(readonly sources: readonly ItemSource<Item>[]) {
    this.length = sources.reduce((sum, source) => sum + source.length, 0);
  }

  async items(indices: ArrayLike<number>): Promise<Item[]> {
    return Promise.all(
      Array.from(indices, async (index) => {
        let start = 0;
        for (const source of this.sources) {
          if (index < start + source.length) {
            const [item] = await source.items([index - start]);
            return { ...(item as Item), index };
          }
          start += source.length;
        }
        throw new RangeError(`item ${index} asked of ${this.length}`);
      }),
    );
  }
}
