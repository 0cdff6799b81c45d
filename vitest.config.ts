import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: [
      'packages/*/{src,test,scripts}/**/*.test.ts',
      'scripts/**/*.test.ts',
      'recipes/**/*.test.ts',
      'docs/**/*.test.ts',
    ],
    // The addon is one per process: a crash or a leaked tensor stays in the file that caused it.
    pool: 'forks',
    maxWorkers: 2,
    // Two test files run at a time on two cores: more threads inside each would only wait for one another.
    env: { OMP_NUM_THREADS: '1' },
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: ['default', './scripts/vitest-reporter.mjs'],
  },
});
