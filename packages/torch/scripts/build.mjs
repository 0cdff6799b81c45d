// Compiles the addon with CMake, or takes it from the per-user cache when the same sources met the same libtorch before.
// Run alone it rebuilds what changed: node packages/torch/scripts/build.mjs
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, totalmem } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { findCudaToolkit } from './cuda-toolkit.mjs';
import { locateLibtorch } from './locate-libtorch.mjs';
import { withLock } from './lock.mjs';
import { buildFolder, buildRecord, cacheFolder, packageFolder, readJson } from './places.mjs';
import { ask, say, work } from './processes.mjs';
import { runMain, SetUpError } from './set-up-error.mjs';
import { sourceDigest } from './source-digest.mjs';

const require = createRequire(import.meta.url);
const PRODUCTS = ['verlet_torch.node', 'verlet_environment.node', 'verlet_probe'];
const KEPT_BUILDS = 12;
const COMPILE_DEADLINE_MS = 60 * 60_000;

/** @returns {Promise<{ cached: boolean, file: string }>} */
export async function buildAddon(libtorch) {
  const cuda = libtorch.variant === 'cuda' ? findCudaToolkit(libtorch) : undefined;
  if (libtorch.variant === 'cuda' && !cuda) {
    say(
      'libtorch has CUDA, but the CUDA headers were not found: graphs, events and NCCL are left out (set CUDA_HOME and rebuild)',
    );
  }
  const sources = sourceDigest(packageFolder);
  const key = cacheKey(sources, libtorch, cuda);
  const output = path.join(buildFolder, libtorch.variant);
  const kept = path.join(cacheFolder(), 'addon', key);
  return withLock(path.join(buildFolder, 'build.lock'), 'build', async () => {
    mkdirSync(output, { recursive: true });
    const cached = existsSync(path.join(kept, PRODUCTS[0]));
    if (cached) {
      copyProducts(kept, output);
    } else {
      await compile(libtorch, cuda, output);
      // A source edited while the compiler ran belongs to another key.
      if (sourceDigest(packageFolder) === sources) keep(output, kept);
    }
    const record = {
      file: path.join(libtorch.variant, PRODUCTS[0]),
      version: libtorch.version,
      variant: libtorch.variant,
      libtorch: libtorch.folder,
      source: libtorch.source,
      cudaCompiledIn: Boolean(cuda),
      ncclCompiledIn: Boolean(cuda?.ncclInclude),
      key,
      sources,
    };
    replace(buildRecord, `${JSON.stringify(record, null, 2)}\n`);
    return { cached, file: path.join(output, PRODUCTS[0]) };
  });
}

async function compile(libtorch, cuda, output) {
  const tools = requireTools();
  const objects = path.join(output, 'objects');
  const cache = path.join(objects, 'CMakeCache.txt');
  // CMake refuses to change the generator or the source folder of a configured build.
  const matches =
    existsSync(cache) &&
    [`CMAKE_GENERATOR:INTERNAL=${tools.generator}`, `CMAKE_HOME_DIRECTORY:INTERNAL=${packageFolder}`].every((line) =>
      readFileSync(cache, 'utf8').includes(line),
    );
  if (!matches) rmSync(objects, { recursive: true, force: true });

  const settings = {
    CMAKE_BUILD_TYPE: 'Release',
    LIBTORCH_INCLUDE: libtorch.include,
    LIBTORCH_LIB: libtorch.lib,
    LIBTORCH_HAS_CUDA: libtorch.variant === 'cuda' ? 'ON' : 'OFF',
    NODE_API_INCLUDE: path.join(packageRoot('node-api-headers'), 'include'),
    NODE_ADDON_API_INCLUDE: packageRoot('node-addon-api'),
    VERLET_CUDA: cuda ? 'ON' : 'OFF',
    CUDA_INCLUDE: cuda?.include.join(';') ?? '',
    CUDART_LIBRARY: cuda?.cudart ?? '',
    NCCL_INCLUDE: cuda?.ncclInclude ?? '',
    NCCL_LIBRARY: cuda?.ncclLibrary ?? '',
  };
  if (cuda?.nvcc)
    Object.assign(settings, { CMAKE_CUDA_COMPILER: cuda.nvcc, CMAKE_CUDA_ARCHITECTURES: cuda.architectures });
  const defines = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`);
  const configured = await work('cmake', ['-S', packageFolder, '-B', objects, '-G', tools.generator, ...defines], {
    timeoutMs: 300_000,
  });
  if (!configured.ok) throw new SetUpError(`CMake could not configure the build:\n${errorLines(configured.output)}`);

  say(`compiling the addon against libtorch ${libtorch.version} with ${tools.jobs} jobs (a minute or two, once)`);
  const log = path.join(output, 'build.log');
  let step = '';
  const built = await work('cmake', ['--build', objects, '--parallel', String(tools.jobs)], {
    timeoutMs: COMPILE_DEADLINE_MS,
    onLine: (line) => {
      step = /^\[\s*(\d+\/\d+|\d+%)\]/.exec(line)?.[1] ?? step;
    },
    progress: () => `compiling ${step}`,
  });
  writeFileSync(log, configured.output + built.output);
  if (!built.ok) throw new SetUpError(`compiling the addon failed (whole log: ${log}):\n${errorLines(built.output)}`);
  if (!existsSync(path.join(objects, PRODUCTS[0])))
    throw new SetUpError('there are no sources in packages/torch/native');
  copyProducts(objects, output);
}

function requireTools() {
  const compiler = process.env.CXX || (ask('g++', ['--version']).missing ? 'c++' : 'g++');
  if (ask(compiler, ['--version']).missing)
    throw new SetUpError(`there is no C++ compiler ('${compiler}')`, 'sudo apt-get install g++');
  if (ask('cmake', ['--version']).missing) throw new SetUpError("there is no 'cmake'", 'sudo apt-get install cmake');
  const hasNinja = !ask('ninja', ['--version']).missing;
  if (!hasNinja && ask('make', ['--version']).missing) {
    throw new SetUpError("there is neither 'ninja' nor 'make'", 'sudo apt-get install ninja-build');
  }
  // A file that includes torch/torch.h takes close to 2 GB of the compiler's memory.
  const jobs = Math.max(1, Math.min(availableParallelism(), Math.floor(totalmem() / 2e9)));
  return { generator: hasNinja ? 'Ninja' : 'Unix Makefiles', jobs };
}

/** Sources, libtorch, toolkit and compiler: anything that could make another binary. */
function cacheKey(sources, libtorch, cuda) {
  const hash = createHash('sha256').update(sources);
  const library = statSync(
    path.join(libtorch.lib, process.platform === 'darwin' ? 'libtorch_cpu.dylib' : 'libtorch_cpu.so'),
  );
  const versions = ['node-addon-api', 'node-api-headers'].map(
    (name) => readJson(path.join(packageRoot(name), 'package.json')).version,
  );
  const compiler = ask(process.env.CXX || 'c++', ['--version']).stdout.split('\n')[0];
  hash.update(
    JSON.stringify([
      libtorch.folder,
      libtorch.version,
      libtorch.variant,
      library.size,
      cuda ?? null,
      versions,
      compiler,
    ]),
  );
  hash.update(JSON.stringify([process.platform, process.arch, process.env.CXXFLAGS ?? '']));
  return hash.digest('hex').slice(0, 32);
}

function packageRoot(name) {
  return path.dirname(require.resolve(`${name}/package.json`));
}

function copyProducts(from, to) {
  for (const name of PRODUCTS) {
    const source = path.join(from, name);
    if (!existsSync(source)) continue;
    // A running process keeps the old file mapped: replace it, never write into it.
    const temporary = path.join(to, `.${name}.${process.pid}`);
    copyFileSync(source, temporary);
    renameSync(temporary, path.join(to, name));
  }
}

function keep(output, kept) {
  const temporary = `${kept}.${process.pid}.part`;
  try {
    mkdirSync(temporary, { recursive: true });
    copyProducts(output, temporary);
    rmSync(kept, { recursive: true, force: true });
    renameSync(temporary, kept);
    prune(path.dirname(kept));
  } catch (error) {
    // The cache only saves time.
    say(`could not keep the build in ${kept}: ${error.message}`);
    rmSync(temporary, { recursive: true, force: true });
  }
}

function prune(folder) {
  const entries = readdirSync(folder).map((name) => ({ name, time: statSync(path.join(folder, name)).mtimeMs }));
  entries.sort((a, b) => b.time - a.time);
  for (const { name } of entries.slice(KEPT_BUILDS)) rmSync(path.join(folder, name), { recursive: true, force: true });
}

function replace(file, content) {
  const temporary = `${file}.${process.pid}`;
  writeFileSync(temporary, content);
  renameSync(temporary, file);
}

function errorLines(output) {
  const lines = output.split('\n');
  const first = lines.findIndex((line) => /\berror\b/i.test(line));
  return lines
    .slice(first < 0 ? -40 : Math.max(0, first - 3))
    .slice(0, 60)
    .join('\n');
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await runMain(async () => {
    const libtorch = await locateLibtorch();
    const started = Date.now();
    const built = await buildAddon(libtorch);
    say(
      `${built.file} ${built.cached ? 'from the cache' : 'built'} in ${((Date.now() - started) / 1000).toFixed(1)} s`,
    );
  });
}
