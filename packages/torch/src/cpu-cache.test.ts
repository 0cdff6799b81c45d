import { describe, expect, it } from 'vitest';
import { cacheEnvironment } from './cpu-cache.js';

const gigabyte = 2 ** 30;

describe('what freed CPU memory may be kept', () => {
  it('is an eighth of what a container allows, at most 4 GiB', () => {
    expect(cacheEnvironment(2 * gigabyte, 64 * gigabyte, undefined)).toEqual({ VERLET_CPU_CACHE_MB: '256' });
    expect(cacheEnvironment(100 * gigabyte, 512 * gigabyte, undefined)).toEqual({ VERLET_CPU_CACHE_MB: '4096' });
  });

  it('is left to the allocator where nothing is limited, and to the user who says so', () => {
    for (const allowed of [undefined, 0, 64 * gigabyte, 2 ** 64])
      expect(cacheEnvironment(allowed, 64 * gigabyte, undefined)).toEqual({});
    expect(cacheEnvironment(2 * gigabyte, 64 * gigabyte, '0')).toEqual({});
  });
});
