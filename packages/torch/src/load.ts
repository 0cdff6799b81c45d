import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { totalmem } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { sourceDigest } from '../scripts/source-digest.mjs';
import { cacheEnvironment } from './cpu-cache.js';
import { type CpuSafety, findCpuSafety } from './cpu-safety.js';

/** What `scripts/build.mjs` wrote down about the addon it made. */
export interface BuildRecord {
  /** The addon, relative to the build folder. */
  file: string;
  version: string;
  variant: 'cpu' | 'cuda';
  /** The libtorch folder that the addon is linked to. */
  libtorch: string;
  /** How that folder was found. */
  source: string;
  cudaCompiledIn: boolean;
  ncclCompiledIn: boolean;
  /** Digest of the sources that it was compiled from. */
  sources: string;
}

interface EnvironmentAddon {
  setEnvironment(name: string, value: string): void;
  getEnvironment(name: string): string | undefined;
}

/** The addon is missing or does not load; the message says what to do. */
export class AddonNotBuiltError extends Error {
  override name = 'AddonNotBuiltError';
}

const require = createRequire(import.meta.url);
const packageFolder = fileURLToPath(new URL('..', import.meta.url));
const buildFolder = path.join(packageFolder, 'build');

export const buildRecord: BuildRecord = readBuildRecord();
export const cpuSafety: CpuSafety = prepareEnvironment();

/** The addon's exports, untyped: `native.ts` says what they are. */
export const native: Record<string, unknown> = loadAddon();

function readBuildRecord(): BuildRecord {
  const file = path.join(buildFolder, 'addon.json');
  if (!existsSync(file)) {
    throw new AddonNotBuiltError(`@verlet/torch is not built yet (${file} is missing). Run: npm rebuild @verlet/torch`);
  }
  const record = JSON.parse(readFileSync(file, 'utf8')) as BuildRecord;
  if (existsSync(path.join(packageFolder, 'native')) && record.sources !== sourceDigest(packageFolder))
    throw new AddonNotBuiltError(
      '@verlet/torch was built from other sources than those in its native folder. Run: npm rebuild @verlet/torch',
    );
  return record;
}

/**
 * libtorch reads its settings with getenv. Assigning to `process.env` reaches getenv on the main thread only, so the variables
 * are set through a small addon that links nothing and can be loaded first. `process.env` is set too, for child processes.
 */
function prepareEnvironment(): CpuSafety {
  const folder = path.dirname(path.join(buildFolder, buildRecord.file));
  const safety = findCpuSafety(path.join(folder, 'verlet_probe'), buildRecord.version);
  const kept = cacheEnvironment(process.constrainedMemory(), totalmem());
  const names = Object.entries({ ...waiting(), ...kept, ...safety.environment });
  if (names.length === 0) return safety;
  const setter = path.join(folder, 'verlet_environment.node');
  // Without it the addon itself is missing too, and loading that says what to do.
  if (!existsSync(setter)) return safety;
  const addon = require(setter) as EnvironmentAddon;
  for (const [name, value] of names) {
    process.env[name] = value;
    // setenv while other threads read the environment is a race; a later worker finds the value in place.
    if (addon.getEnvironment(name) !== value) addon.setEnvironment(name, value);
  }
  return safety;
}

/**
 * OpenMP's threads spin while they wait for one another, for milliseconds by default. On a machine that others use too, they then
 * take the cores from the very threads they wait for: a training step was seen to take ten times as long. Sleeping at once costs
 * as much on an idle machine. A hundred thousand turns, some tenths of a millisecond, is good in both.
 */
function waiting(): Record<string, string> {
  const chosen = process.env.OMP_WAIT_POLICY ?? process.env.GOMP_SPINCOUNT;
  return chosen === undefined ? { GOMP_SPINCOUNT: '100000' } : {};
}

function loadAddon(): Record<string, unknown> {
  const file = path.join(buildFolder, buildRecord.file);
  try {
    return require(file) as Record<string, unknown>;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const gone = existsSync(buildRecord.libtorch) ? '' : ` Its libtorch ${buildRecord.libtorch} is gone.`;
    throw new AddonNotBuiltError(
      `@verlet/torch could not load ${file}: ${reason}.${gone} Run: npm rebuild @verlet/torch`,
      {
        cause: error,
      },
    );
  }
}
