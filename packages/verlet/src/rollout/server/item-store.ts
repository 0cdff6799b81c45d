/**
 * The last output items, by id. The server keeps no conversations, but the AI SDK's OpenAI provider answers with
 * references to items it was given (unless `store` is false), so the recent ones must be found again.
 */
export type Item = Record<string, unknown>;

export class ItemStore {
  private readonly items = new Map<string, Item>();

  constructor(private readonly capacity = 10_000) {}

  get(id: string): Item | undefined {
    const item = this.items.get(id);
    if (item) this.put(id, item); // Used lately: keep it longer.
    return item;
  }

  put(id: string, item: Item): void {
    this.items.delete(id);
    this.items.set(id, item);
    if (this.items.size > this.capacity) this.items.delete(this.items.keys().next().value!);
  }
}
