/** Chrome's trace event format, an array of events: opened by Perfetto (ui.perfetto.dev) and chrome://tracing. */
import { appendFileSync, existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export interface TraceEvent {
  name: string;
  /** X: a span, C: a counter, M: a name. */
  ph: 'X' | 'C' | 'M';
  pid: number;
  tid: number;
  /** Microseconds. */
  ts?: number;
  dur?: number;
  cat?: string;
  args?: Record<string, unknown>;
}

/** Grows event by event, so that a killed run leaves a file that opens: readers do not insist on the closing bracket. */
export class TraceFile {
  private isEmpty = true;

  constructor(
    readonly file: string,
    { append = false }: { append?: boolean } = {},
  ) {
    mkdirSync(path.dirname(path.resolve(file)), { recursive: true });
    if (append && existsSync(file)) this.reopen();
    else writeFileSync(file, '[\n');
  }

  add(events: readonly TraceEvent[]): void {
    if (events.length === 0) return;
    const text = events.map((event) => JSON.stringify(event)).join(',\n');
    appendFileSync(this.file, this.isEmpty ? text : `,\n${text}`);
    this.isEmpty = false;
  }

  close(): void {
    appendFileSync(this.file, '\n]\n');
  }

  /** Goes back to after the last whole event. */
  private reopen(): void {
    const text = readFileSync(this.file, 'utf8').replace(/\n?\]\s*$/, '');
    const lines = text.split('\n');
    const last = lines.at(-1) ?? '';
    if (last !== '[' && last !== '' && !isWhole(last)) lines.pop();
    const kept = lines.join('\n').replace(/[,\s]+$/, '');
    if (!kept.startsWith('[')) {
      writeFileSync(this.file, '[\n');
      return;
    }
    this.isEmpty = kept === '[';
    truncateSync(this.file, 0);
    writeFileSync(this.file, this.isEmpty ? '[\n' : kept);
  }
}

function isWhole(line: string): boolean {
  try {
    JSON.parse(line.replace(/,$/, ''));
    return true;
  } catch {
    return false;
  }
}
