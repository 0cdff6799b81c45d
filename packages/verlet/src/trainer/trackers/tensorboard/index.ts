/** TensorBoard event files, written without TensorFlow: records framed as TFRecord, read by `tensorboard --logdir`. */
import { appendFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { ValidationExample } from '../../validation.js';
import type { Metrics, Tracker } from '../types.js';
import { maskedCrc32c } from './crc32c.js';
import { fileVersion, scalars, sessionStart, text } from './event.js';

/** length (u64), its checksum, the payload, its checksum */
export function frame(payload: Uint8Array): Buffer {
  const header = Buffer.alloc(12);
  header.writeBigUInt64LE(BigInt(payload.length));
  header.writeUInt32LE(maskedCrc32c(header.subarray(0, 8)), 8);
  const footer = Buffer.alloc(4);
  footer.writeUInt32LE(maskedCrc32c(payload));
  return Buffer.concat([header, payload, footer]);
}

export class TensorboardTracker implements Tracker {
  readonly name = 'tensorboard';
  private file: string | null = null;

  constructor(readonly folder: string) {}

  start(step: number): void {
    this.open(step === 0 ? 0 : step + 1);
  }

  log(metrics: Metrics, step: number): void {
    this.append(scalars(Date.now() / 1000, step, metrics));
  }

  generations(examples: readonly ValidationExample[], step: number): void {
    const blocks = examples.map(
      ({ prompt, response, score }) => `**score ${score}**\n\n${quoted(prompt)}\n\n${quoted(response)}`,
    );
    this.append(text(Date.now() / 1000, step, 'val/generations', blocks.join('\n\n---\n\n')));
  }

  /** A process writes a file of its own; readers join the files of a folder in the order of their names. */
  private open(firstStep: number): string {
    mkdirSync(this.folder, { recursive: true });
    const used = existsSync(this.folder)
      ? readdirSync(this.folder).map((name) => Number(/tfevents\.(\d+)\./.exec(name)?.[1] ?? 0))
      : [];
    const second = Math.max(Math.floor(Date.now() / 1000), ...used.map((value) => value + 1));
    const name = `events.out.tfevents.${String(second).padStart(10, '0')}.${os.hostname()}.${process.pid}`;
    this.file = path.join(this.folder, name);
    const seconds = Date.now() / 1000;
    appendFileSync(this.file, Buffer.concat([frame(fileVersion(seconds)), frame(sessionStart(seconds, firstStep))]));
    return this.file;
  }

  private append(record: Buffer): void {
    appendFileSync(this.file ?? this.open(0), frame(record));
  }
}

const quoted = (content: string): string => content.replace(/^/gm, '    ');
