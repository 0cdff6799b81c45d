// Brings libtorch into the per-user cache with pip: the C++ library and its headers are inside the Python wheel.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { withLock } from './lock.mjs';
import { cacheFolder, readJson } from './places.mjs';
import { ask, say, work } from './processes.mjs';
import { SetUpError } from './set-up-error.mjs';

export const TORCH_VERSION = '2.13.0';
const CPU_INDEX = 'https://download.pytorch.org/whl/cpu';
const DOWNLOAD_DEADLINE_MS = 40 * 60_000;

/** On Linux x64 the plain wheel is the CUDA build (GBs, and it does not load without its CUDA libraries): only `+cpu` will do. */
const needsCpuTag = process.platform === 'linux' && process.arch === 'x64';
const cpuVersion = needsCpuTag ? `${TORCH_VERSION}+cpu` : TORCH_VERSION;

export async function fetchCpuLibtorch(python) {
  const folder = path.join(cacheFolder(), 'libtorch', cpuVersion);
  const done = () => readJson(path.join(folder, 'libtorch.json'))?.version === cpuVersion;
  const result = { folder, source: 'wheel in the per-user cache' };
  if (done()) return result;
  requirePip(python);
  return withLock(`${folder}.lock`, 'download of libtorch', async () => {
    if (done()) return result;
    const temporary = `${folder}.${process.pid}.part`;
    rmSync(temporary, { recursive: true, force: true });
    mkdirSync(temporary, { recursive: true });
    try {
      const wheel = await downloadCpuWheel(python, temporary);
      await unpack(python, wheel, path.join(temporary, 'unpacked'));
      const record = { version: cpuVersion, variant: 'cpu', wheel: path.basename(wheel) };
      writeFileSync(path.join(temporary, 'unpacked/libtorch.json'), `${JSON.stringify(record, null, 2)}\n`);
      rmSync(folder, { recursive: true, force: true });
      renameSync(path.join(temporary, 'unpacked'), folder);
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
    return result;
  });
}

async function downloadCpuWheel(python, temporary) {
  const wheels = path.join(temporary, 'wheels');
  // The Python code in the wheel is never run, so a wheel for another Python serves as well.
  const foreign = ['--python-version', '3.12', '--implementation', 'cp', '--abi', 'cp312'];
  const attempts = [[], ['--index-url', CPU_INDEX], ['--index-url', CPU_INDEX, ...foreign]];
  const failures = [];
  for (const extra of attempts) {
    rmSync(wheels, { recursive: true, force: true });
    mkdirSync(wheels);
    const from = extra.length ? CPU_INDEX : "pip's configured locations";
    say(`fetching torch ${cpuVersion} from ${from} (about 190 MB)`);
    const args = [
      '-m',
      'pip',
      'download',
      '--no-deps',
      '--only-binary=:all:',
      '--no-cache-dir',
      '--progress-bar',
      'off',
    ];
    const outcome = await work(python, [...args, '--dest', wheels, ...extra, `torch==${cpuVersion}`], {
      timeoutMs: DOWNLOAD_DEADLINE_MS,
      env: { ...process.env, TMPDIR: temporary, PIP_DISABLE_PIP_VERSION_CHECK: '1' },
      progress: () => `fetching torch ${cpuVersion}: ${Math.round(folderBytes(temporary) / 1e6)} MB`,
    });
    const [wheel] = readdirSync(wheels).filter((name) => name.startsWith('torch-') && name.endsWith('.whl'));
    if (outcome.ok && wheel) {
      if (!needsCpuTag || wheel.includes('+cpu')) return path.join(wheels, wheel);
      failures.push(`${from}: got ${wheel}, which is not a CPU build`);
    } else {
      failures.push(`${from}: ${lastLines(outcome.output, 3)}`);
    }
  }
  throw new SetUpError(
    `could not fetch the CPU build of torch ${TORCH_VERSION}:\n  - ${failures.join('\n  - ')}`,
    'install torch for Python and set VERLET_PYTHON, or set LIBTORCH to an unpacked libtorch, then: npm rebuild @verlet/torch',
  );
}

/** Only lib, include and share: no Python code and no Python bindings reach the disk. */
async function unpack(python, wheel, destination) {
  say(`unpacking ${path.basename(wheel)}`);
  const program = `
import os, sys, zipfile
wheel, destination = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for entry in archive.infolist():
        parts = entry.filename.split('/')
        wanted = parts[0] == 'torch' and len(parts) > 2 and parts[1] in ('lib', 'include', 'share') and '..' not in parts
        if entry.is_dir() or not wanted or parts[-1].startswith('libtorch_python'):
            continue
        target = os.path.join(destination, *parts[1:])
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with archive.open(entry) as source, open(target, 'wb') as sink:
            while chunk := source.read(1 << 22):
                sink.write(chunk)
`;
  const outcome = await work(python, ['-c', program, wheel, destination], {
    timeoutMs: 10 * 60_000,
    progress: () => `unpacking: ${Math.round(folderBytes(destination) / 1e6)} MB`,
  });
  if (!outcome.ok)
    throw new SetUpError(`unpacking ${wheel} failed: ${lastLines(outcome.output, 5)}`, 'is the disk full? df -h');
}

/** torch and its CUDA libraries, in a virtual environment of Verlet's own. */
export async function fetchCudaLibtorch(python) {
  const environment = path.join(cacheFolder(), 'libtorch', `${TORCH_VERSION}+cuda`);
  const marker = path.join(environment, 'libtorch.json');
  const result = () => ({
    folder: readJson(marker)?.folder,
    source: 'private Python environment in the per-user cache',
  });
  if (result().folder) return result();
  requirePip(python);
  return withLock(`${environment}.lock`, 'installation of torch', async () => {
    if (result().folder) return result();
    rmSync(environment, { recursive: true, force: true });
    mkdirSync(path.dirname(environment), { recursive: true });
    const made = ask(python, ['-m', 'venv', environment], { timeoutMs: 180_000 });
    if (!made.ok) {
      throw new SetUpError(
        `${python} cannot make a virtual environment: ${lastLines(made.stderr, 3)}`,
        'sudo apt-get install python3-venv',
      );
    }
    const own = path.join(environment, 'bin/python');
    say(`installing torch ${TORCH_VERSION} and its CUDA libraries into ${environment} (several GB)`);
    const outcome = await work(own, ['-m', 'pip', 'install', '--progress-bar', 'off', `torch==${TORCH_VERSION}`], {
      timeoutMs: DOWNLOAD_DEADLINE_MS,
      progress: () => `installing torch ${TORCH_VERSION} with CUDA`,
    });
    const where = ask(
      own,
      ['-c', 'import os, torch; print(os.path.dirname(torch.__file__)); print(torch.version.cuda)'],
      {
        timeoutMs: 180_000,
      },
    );
    const [folder, cuda] = where.stdout.trim().split('\n');
    if (!outcome.ok || !where.ok || cuda === 'None') {
      rmSync(environment, { recursive: true, force: true });
      const reason = outcome.ok
        ? `torch came without CUDA. ${lastLines(where.stderr, 3)}`
        : lastLines(outcome.output, 3);
      throw new SetUpError(
        `installing the CUDA build of torch failed: ${reason}`,
        'VERLET_TORCH=cpu npm ci  (to go on without the GPU)',
      );
    }
    writeFileSync(marker, `${JSON.stringify({ version: TORCH_VERSION, variant: 'cuda', cuda, folder }, null, 2)}\n`);
    return result();
  });
}

function requirePip(python) {
  const answer = ask(python, ['-m', 'pip', '--version']);
  if (answer.missing) {
    throw new SetUpError(
      `there is no '${python}', which fetches libtorch`,
      'sudo apt-get install python3 python3-pip  (or set VERLET_PYTHON)',
    );
  }
  if (!answer.ok)
    throw new SetUpError(`${python} has no pip, which fetches libtorch`, 'sudo apt-get install python3-pip');
}

function folderBytes(folder) {
  if (!existsSync(folder)) return 0;
  let total = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    // pip moves files while we look.
    total += statSync(path.join(entry.parentPath ?? entry.path, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  }
  return total;
}

function lastLines(text, count) {
  return text.trim().split('\n').slice(-count).join(' | ');
}
