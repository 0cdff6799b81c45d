import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { completeLock, platformEntry } from './complete-lock.mjs';

describe('package-lock.json', () => {
  it('names the optional packages of every platform, so that npm ci takes it', () => {
    const file = fileURLToPath(new URL('../package-lock.json', import.meta.url));
    const { added, unknown } = completeLock(JSON.parse(readFileSync(file, 'utf8')));
    expect({ added, unknown }, 'run: node scripts/complete-lock.mjs').toEqual({ added: [], unknown: [] });
  });

  it('reads the platform off the name', () => {
    expect(platformEntry('@rolldown/binding-linux-arm64-musl', '1.2.19')).toEqual({
      version: '1.2.19',
      cpu: ['arm64'],
      libc: ['musl'],
      optional: true,
      os: ['linux'],
    });
    expect(platformEntry('@rolldown/binding-wasm32-wasi', '1.2.19')).toEqual({
      version: '1.2.19',
      cpu: ['wasm32'],
      optional: true,
    });
    expect(platformEntry('fsevents', '2.3.3')).toBeUndefined();
    expect(platformEntry('some-linux-x64', '^1.0.0')).toBeUndefined();
  });

  it('adds only what is missing', () => {
    const lock = {
      packages: {
        '': {},
        'node_modules/tool': {
          optionalDependencies: { 'tool-linux-x64': '1.0.0', 'tool-darwin-arm64': '1.0.0', odd: '2.0.0' },
        },
        'node_modules/tool-linux-x64': { version: '1.0.0' },
      },
    };
    const { lock: completed, added, unknown } = completeLock(lock);
    expect(added).toEqual(['tool-darwin-arm64@1.0.0']);
    expect(unknown).toEqual(['odd@2.0.0 of node_modules/tool']);
    expect(completed.packages['node_modules/tool-linux-x64']).toEqual({ version: '1.0.0' });
  });
});
