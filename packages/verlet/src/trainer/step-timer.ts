/** Wall seconds of the named parts of one step. */
export class StepTimer {
  readonly seconds: Record<string, number> = {};

  async time<T>(name: string, body: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await body();
    } finally {
      this.seconds[name] = (this.seconds[name] ?? 0) + (performance.now() - start) / 1000;
    }
  }
}
