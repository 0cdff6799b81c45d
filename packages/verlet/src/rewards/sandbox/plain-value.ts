import { type PlainValue, SandboxFailure } from './types.js';

/** Tagged JSON, as the harnesses write it: i = big integer (hex), f = float, t = tuple, s = set, d/o = mapping, b = bytes. */
export type Encoded = null | boolean | number | string | Encoded[] | { [tag: string]: Encoded };

export function encodePlain(value: PlainValue): Encoded {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (value === undefined) return { u: 1 };
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : { f: String(value) };
  if (typeof value === 'bigint')
    return { i: `${value < 0n ? '-0x' : '0x'}${(value < 0n ? -value : value).toString(16)}` };
  if (value instanceof Uint8Array) return { b: Buffer.from(value).toString('hex') };
  if (Array.isArray(value)) return value.map(encodePlain);
  if (value instanceof Set) return { s: [...value].map(encodePlain) };
  const entries: [PlainValue, PlainValue][] = value instanceof Map ? [...value] : Object.entries(value);
  return { d: entries.map(([key, item]) => [encodePlain(key), encodePlain(item)]) };
}

export function decodePlain(encoded: Encoded): PlainValue {
  if (encoded === null || typeof encoded !== 'object') return encoded;
  if (Array.isArray(encoded)) return encoded.map(decodePlain);
  const list = (body: Encoded | undefined): Encoded[] => {
    if (Array.isArray(body)) return body;
    throw new SandboxFailure(`malformed value from the sandbox: ${JSON.stringify(encoded).slice(0, 200)}`);
  };
  if ('u' in encoded) return undefined;
  if ('f' in encoded) {
    const text = String(encoded.f);
    return text === 'inf' ? Infinity : text === '-inf' ? -Infinity : Number(text);
  }
  if ('i' in encoded) {
    const text = String(encoded.i);
    if (!/^-?0x[0-9a-f]+$/i.test(text)) throw new SandboxFailure('malformed integer from the sandbox');
    return text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text);
  }
  if ('t' in encoded) return list(encoded.t).map(decodePlain);
  if ('s' in encoded) return new Set(list(encoded.s).map(decodePlain));
  if ('b' in encoded) return new Uint8Array(Buffer.from(String(encoded.b), 'hex'));
  const pairs = 'd' in encoded ? encoded.d : 'o' in encoded ? encoded.o : undefined;
  if (pairs !== undefined) {
    return new Map(list(pairs).map((pair) => [decodePlain(list(pair)[0] ?? null), decodePlain(list(pair)[1] ?? null)]));
  }
  // Complex numbers and handles of live objects have no plain form outside the box.
  return { unsupported: JSON.stringify(encoded).slice(0, 200) };
}
