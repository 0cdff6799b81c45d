// Finds libtorch: the LIBTORCH folder, an importable Python torch, else the wheel in the per-user cache.
// A libtorch is { folder, lib, include, version, variant: 'cpu' | 'cuda', source }.
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { fetchCpuLibtorch, fetchCudaLibtorch } from './fetch-libtorch.mjs';
import { readJson } from './places.mjs';
import { ask, say } from './processes.mjs';
import { SetUpError } from './set-up-error.mjs';

/** Versions whose headers and kernels the door is tested against, oldest and newest. */
const OLDEST = [2, 11];
const NEWEST = [2, 13];

export async function locateLibtorch() {
  const wanted = wantedVariant();
  return fromLibtorchFolder(wanted) ?? fromPython(wanted) ?? (await fromWheel(wanted));
}

/** `VERLET_TORCH=cpu|cuda` decides; undefined leaves the choice to what is found. */
export function wantedVariant() {
  const wanted = process.env.VERLET_TORCH;
  if (!wanted) return undefined;
  if (wanted !== 'cpu' && wanted !== 'cuda') {
    throw new SetUpError(`VERLET_TORCH is '${wanted}'`, 'set VERLET_TORCH=cpu or VERLET_TORCH=cuda, or unset it');
  }
  return wanted;
}

export function pythonCommand() {
  return process.env.VERLET_PYTHON || 'python3';
}

export function hasNvidiaGpu() {
  const answer = ask('nvidia-smi', ['-L'], { timeoutMs: 20_000 });
  return answer.ok && /GPU \d+/.test(answer.stdout);
}

/** Reads a torch or libtorch folder; undefined when it has no C++ library and headers. */
export function describeLibtorch(folder, source) {
  const lib = path.join(folder, 'lib');
  const include = path.join(folder, 'include');
  const library = process.platform === 'darwin' ? 'libtorch_cpu.dylib' : 'libtorch_cpu.so';
  if (!existsSync(path.join(lib, library)) || !existsSync(path.join(include, 'torch/csrc/api/include/torch/torch.h'))) {
    return undefined;
  }
  const variant = existsSync(path.join(lib, 'libtorch_cuda.so')) ? 'cuda' : 'cpu';
  return { folder: realpathSync(folder), lib, include, version: readVersion(folder), variant, source };
}

function readVersion(folder) {
  const recorded = readJson(path.join(folder, 'libtorch.json'))?.version;
  if (recorded) return recorded;
  const python = path.join(folder, 'version.py');
  if (existsSync(python)) {
    const match = /__version__\s*=\s*'([^']+)'/.exec(readFileSync(python, 'utf8'));
    if (match) return match[1];
  }
  const plain = path.join(folder, 'build-version');
  if (existsSync(plain)) return readFileSync(plain, 'utf8').trim();
  const header = path.join(folder, 'include/torch/headeronly/version.h');
  const text = existsSync(header) ? readFileSync(header, 'utf8') : '';
  const parts = ['MAJOR', 'MINOR', 'PATCH'].map((part) => new RegExp(`TORCH_VERSION_${part} (\\d+)`).exec(text)?.[1]);
  return parts.every(Boolean) ? parts.join('.') : 'unknown';
}

function isTested(version) {
  const [major, minor] = version.split('.').map(Number);
  const order = (a, b) => a[0] - b[0] || a[1] - b[1];
  return order([major, minor], OLDEST) >= 0 && order([major, minor], NEWEST) <= 0;
}

const testedRange = `${OLDEST.join('.')} to ${NEWEST.join('.')}`;

function fromLibtorchFolder(wanted) {
  const folder = process.env.LIBTORCH;
  if (!folder) return undefined;
  const found = describeLibtorch(folder, 'LIBTORCH');
  if (!found) {
    throw new SetUpError(
      `LIBTORCH is '${folder}', which has no lib/libtorch_cpu and include/torch`,
      'point LIBTORCH at an unpacked libtorch or at the torch folder of a Python installation, or unset it',
    );
  }
  if (wanted && found.variant !== wanted) {
    throw new SetUpError(
      `LIBTORCH holds a ${found.variant} build, but VERLET_TORCH asks for ${wanted}`,
      'unset one of them',
    );
  }
  if (!isTested(found.version))
    say(`libtorch ${found.version} is outside the tested range ${testedRange}; trying anyway`);
  return found;
}

function fromPython(wanted) {
  const program =
    "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')";
  const answer = ask(pythonCommand(), ['-c', program]);
  if (!answer.ok || answer.stdout.trim() === '') return undefined;
  const found = describeLibtorch(answer.stdout.trim(), `Python torch of ${pythonCommand()}`);
  if (!found) return undefined;
  if (!isTested(found.version)) {
    say(`Python torch ${found.version} is outside the tested range ${testedRange}; not used`);
    return undefined;
  }
  if (wanted && found.variant !== wanted) {
    say(`Python torch ${found.version} is a ${found.variant} build; VERLET_TORCH=${wanted} asks for another`);
    return undefined;
  }
  return found;
}

async function fromWheel(wanted) {
  const variant = wanted ?? (hasNvidiaGpu() ? 'cuda' : 'cpu');
  const fetched =
    variant === 'cuda' ? await fetchCudaLibtorch(pythonCommand()) : await fetchCpuLibtorch(pythonCommand());
  const found = describeLibtorch(fetched.folder, fetched.source);
  if (!found)
    throw new SetUpError(`${fetched.folder} is incomplete`, `rm -rf ${fetched.folder} and run the set-up again`);
  return found;
}
