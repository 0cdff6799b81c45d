import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** Verdicts by the hash of the request: the same question is paid for once. With a file they survive the run. */
export class JudgeCache {
  private readonly entries = new Map<string, string>();
  hits = 0;

  constructor(private readonly path?: string) {
    if (!path || !existsSync(path)) return;
    for (const line of readFileSync(path, 'utf8').split('\n')) {
      try {
        const { key, value } = JSON.parse(line) as { key: string; value: string };
        this.entries.set(key, value);
      } catch {
        // The empty last line, or one that a killed run left unfinished.
      }
    }
  }

  static key(request: unknown): string {
    return createHash('sha256').update(JSON.stringify(request)).digest('hex');
  }

  get(key: string): string | undefined {
    const value = this.entries.get(key);
    if (value !== undefined) this.hits += 1;
    return value;
  }

  set(key: string, value: string): void {
    this.entries.set(key, value);
    if (this.path) appendFileSync(this.path, `${JSON.stringify({ key, value })}\n`);
  }
}
