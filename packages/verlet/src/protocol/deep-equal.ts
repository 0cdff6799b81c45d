import { isDeepStrictEqual } from 'node:util';

/** Values equal in depth; NaN equals NaN. */
export function deepEqual(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(a, b);
}
