/** The few messages of TensorBoard's protocol buffers that a run needs, as bytes. Field numbers are those of event.proto. */

const wire = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

const key = (field: number, type: number): Buffer => varint((field << 3) | type);

function double(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([key(field, wire.fixed64), bytes]);
}

function float(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([key(field, wire.fixed32), bytes]);
}

const integer = (field: number, value: number): Buffer => Buffer.concat([key(field, wire.varint), varint(value)]);

function bytes(field: number, content: Uint8Array | string): Buffer {
  const body = typeof content === 'string' ? Buffer.from(content, 'utf8') : content;
  return Buffer.concat([key(field, wire.bytes), varint(body.length), body]);
}

const event = (seconds: number, step: number, content: Buffer): Buffer =>
  Buffer.concat([double(1, seconds), integer(2, step), content]);

/** Must be the first record of a file. */
export const fileVersion = (seconds: number): Buffer => event(seconds, 0, bytes(3, 'brain.Event:2'));

/** Tells readers that a process starts at this step: what earlier files hold from it on is void. */
export const sessionStart = (seconds: number, step: number): Buffer => event(seconds, step, bytes(7, integer(1, 1)));

export function scalars(seconds: number, step: number, metrics: Readonly<Record<string, number>>): Buffer {
  const values = Object.entries(metrics).map(([tag, value]) =>
    bytes(1, Buffer.concat([bytes(1, tag), float(2, value)])),
  );
  return event(seconds, step, bytes(5, Buffer.concat(values)));
}

/** Markdown for the text tab: a string tensor of shape [1], marked for the `text` plugin. */
export function text(seconds: number, step: number, tag: string, markdown: string): Buffer {
  const DT_STRING = 7;
  const shape = bytes(2, bytes(2, integer(1, 1)));
  const tensor = Buffer.concat([integer(1, DT_STRING), shape, bytes(8, markdown)]);
  const metadata = bytes(1, bytes(1, 'text'));
  const value = Buffer.concat([bytes(1, tag), bytes(8, tensor), bytes(9, metadata)]);
  return event(seconds, step, bytes(5, bytes(1, value)));
}
