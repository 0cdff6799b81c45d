/**
 * Lines as a person types them in a terminal, with what readline leaves out: text pasted with line breaks is one entry, a line
 * that ends in a backslash goes on, what is typed while the program talks is shown behind that, and the history survives.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { Transform, type TransformCallback, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/** Stands for a line break inside an entry: readline knows single lines only. */
const BREAK = '\u2424';
const PASTE = { on: '\x1b[?2004h', off: '\x1b[?2004l', start: '\x1b[200~', end: '\x1b[201~' };
const HISTORY_SIZE = 500;

export interface TerminalStreams {
  input: NodeJS.ReadableStream & { isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  output: NodeJS.WritableStream & { isTTY?: boolean; columns?: number };
}

export interface TerminalLinesOptions {
  prompt: string;
  /** Shown before the lines that continue an entry. */
  continuation: string;
  /** File of the history; null keeps none. */
  historyFile: string | null;
}

/** Where programs keep what should survive them but is no setting. */
export function defaultHistoryFile(environment = process.env): string {
  const state = environment.XDG_STATE_HOME || path.join(homedir(), '.local', 'state');
  return path.join(state, 'verlet', 'chat_history');
}

export class TerminalLines {
  readonly readline: Interface;
  private readonly keys: PastedText;
  private readonly screen: Screen;
  private readonly begun: string[] = [];
  /** By line that waits to be read: whether the person has not seen it yet. */
  private readonly unseen: boolean[] = [];

  constructor(
    private readonly streams: TerminalStreams,
    private readonly options: TerminalLinesOptions,
  ) {
    this.keys = new PastedText(streams.input);
    this.screen = new Screen(streams.output);
    streams.input.pipe(this.keys);
    this.readline = createInterface({
      input: this.keys,
      output: this.screen,
      terminal: true,
      prompt: options.prompt,
      history: readHistory(options.historyFile),
      historySize: HISTORY_SIZE,
      removeHistoryDuplicates: true,
    });
    this.readline.on('history', (history: string[]) => writeHistory(options.historyFile, history));
    this.readline.on('line', () => this.unseen.push(this.screen.isMuted));
    streams.output.write(PASTE.on);
  }

  /** Asks for the next line, behind what was typed meanwhile. */
  prompt(): void {
    this.screen.isMuted = false;
    this.readline.setPrompt(this.begun.length > 0 ? this.options.continuation : this.options.prompt);
    this.readline.prompt(true);
  }

  /** Keys are kept but not shown until the next prompt: the program talks. */
  mute(): void {
    this.screen.isMuted = true;
  }

  /** Forgets what is being typed. Returns whether there was anything. */
  discard(): boolean {
    const had = this.readline.line !== '' || this.begun.length > 0;
    this.begun.length = 0;
    // Ctrl-E, Ctrl-U: to the end of the line, then delete all of it.
    this.readline.write(null, { ctrl: true, name: 'e' });
    this.readline.write(null, { ctrl: true, name: 'u' });
    return had;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    for await (const line of this.readline) {
      if (this.unseen.shift()) this.streams.output.write(`${line}\n`);
      this.begun.push(line.replaceAll(BREAK, '\n'));
      if (line.endsWith('\\')) {
        this.begun.push(this.begun.pop()!.slice(0, -1));
        this.prompt();
        continue;
      }
      yield this.begun.splice(0).join('\n');
    }
  }

  close(): void {
    this.streams.output.write(PASTE.off);
    this.readline.close();
    this.streams.input.unpipe(this.keys);
    this.keys.destroy();
    // A terminal that is still read keeps the process alive.
    this.streams.input.pause();
  }
}

/** The terminal as readline sees it: nothing of what it draws appears while it is muted. */
class Screen extends Writable {
  isMuted = false;

  constructor(private readonly terminal: TerminalStreams['output']) {
    super();
    terminal.on('resize', () => this.emit('resize'));
  }

  get columns(): number | undefined {
    return this.terminal.columns;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (!this.isMuted) this.terminal.write(chunk);
    done();
  }
}

/** Turns line breaks between the marks of a paste into `BREAK` and takes the marks away. */
export class PastedText extends Transform {
  private readonly decoder = new StringDecoder('utf8');
  private isPasting = false;
  /** The beginning of a mark that the next piece may complete. */
  private rest = '';

  constructor(private readonly terminal: TerminalStreams['input']) {
    super();
  }

  get isTTY(): boolean {
    return true;
  }

  /** Readline asks its input for this. */
  setRawMode(raw: boolean): this {
    this.terminal.setRawMode?.(raw);
    return this;
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let text = this.rest + this.decoder.write(bytes);
    this.rest = '';
    let result = '';
    while (text !== '') {
      const mark = this.isPasting ? PASTE.end : PASTE.start;
      const at = text.indexOf(mark);
      const piece = at < 0 ? text : text.slice(0, at);
      result += this.isPasting ? piece.replace(/\r\n?|\n/g, BREAK) : piece;
      text = at < 0 ? '' : text.slice(at + mark.length);
      if (at >= 0) this.isPasting = !this.isPasting;
    }
    // An escape alone is a key; more than that at the end of a piece may be half a mark.
    const start = result.lastIndexOf('\x1b[2');
    if (start >= 0 && [PASTE.start, PASTE.end].some((mark) => mark.startsWith(result.slice(start)))) {
      this.rest = result.slice(start);
      result = result.slice(0, start);
    }
    done(null, result === '' ? undefined : result);
  }
}

function readHistory(file: string | null): string[] {
  if (file === null) return [];
  try {
    const lines = readFileSync(file, 'utf8').split('\n');
    return lines.filter((line) => line !== '').slice(0, HISTORY_SIZE);
  } catch {
    return [];
  }
}

/** A history that cannot be kept is no reason to stop talking. */
function writeHistory(file: string | null, history: readonly string[]): void {
  if (file === null) return;
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, `${history.slice(0, HISTORY_SIZE).join('\n')}\n`, { mode: 0o600 });
  } catch {
    // Said above.
  }
}
