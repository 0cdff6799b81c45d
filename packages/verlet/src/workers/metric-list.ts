/** Metrics of many micro-batches, reduced by verl's rule: a name with `max` takes the largest, with `min` the smallest, else the mean. */
export class MetricList {
  private readonly values = new Map<string, number[]>();

  add(metrics: Readonly<Record<string, number>>): void {
    for (const [name, value] of Object.entries(metrics)) {
      const list = this.values.get(name);
      if (list) list.push(value);
      else this.values.set(name, [value]);
    }
  }

  /** Parts of one number, given micro-batch by micro-batch with global counts: they add up, and count as one value. */
  addParts(parts: readonly Readonly<Record<string, number>>[]): void {
    const totals: Record<string, number> = {};
    for (const part of parts)
      for (const [name, value] of Object.entries(part)) totals[name] = (totals[name] ?? 0) + value;
    this.add(totals);
  }

  /** The sum of what was added under a name. */
  total(name: string): number {
    return (this.values.get(name) ?? []).reduce((sum, value) => sum + value, 0);
  }

  lists(): Record<string, number[]> {
    return Object.fromEntries(this.values);
  }

  reduced(): Record<string, number> {
    return reduceMetrics(this.lists());
  }
}

export function reduceMetrics(lists: Readonly<Record<string, readonly number[]>>): Record<string, number> {
  const reduced: Record<string, number> = {};
  for (const [name, values] of Object.entries(lists)) {
    if (values.length === 0) continue;
    if (name.includes('max')) reduced[name] = Math.max(...values);
    else if (name.includes('min')) reduced[name] = Math.min(...values);
    else reduced[name] = values.reduce((sum, value) => sum + value, 0) / values.length;
  }
  return reduced;
}
