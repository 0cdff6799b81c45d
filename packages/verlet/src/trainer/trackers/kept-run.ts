import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** What a tracker remembers in the run folder between the processes of a run: the server's run id, the last step sent. */
export class KeptRun<State extends object> {
  constructor(private readonly file: string) {}

  read(): State | null {
    if (!existsSync(this.file)) return null;
    try {
      return JSON.parse(readFileSync(this.file, 'utf8')) as State;
    } catch {
      return null;
    }
  }

  write(state: State): void {
    mkdirSync(path.dirname(this.file), { recursive: true });
    writeFileSync(`${this.file}.tmp`, `${JSON.stringify(state, null, 2)}\n`);
    renameSync(`${this.file}.tmp`, this.file);
  }
}
