// Finds what the CUDA parts of the door need beside a CUDA libtorch: headers, libcudart, NCCL and (for kernels) nvcc.
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { ask } from './processes.mjs';

/** @returns {{ include: string[], cudart?: string, ncclInclude?: string, ncclLibrary?: string, nvcc?: string, architectures: string } | undefined} */
export function findCudaToolkit(libtorch) {
  // NVIDIA's wheels stand beside the torch folder: nvidia/cu13/include, nvidia/cuda_runtime/include, nvidia/nccl/include ...
  const wheels = path.join(path.dirname(libtorch.folder), 'nvidia');
  const wheelParts = existsSync(wheels) ? readdirSync(wheels).map((name) => path.join(wheels, name)) : [];
  const chosen = process.env.CUDA_HOME || process.env.CUDA_PATH;
  const homes = chosen ? [chosen] : [nvccHome(), '/usr/local/cuda'].filter(Boolean);

  // The toolkit's headers come first; what it lacks (cuBLAS, cuSPARSE and cuSOLVER are often left out) the wheels may have.
  const home = homes.find((root) => existsSync(path.join(root, 'include/cuda_runtime_api.h')));
  const include = home ? includeFolders(home) : [];
  // ATen/cuda/CUDAContext.h includes all of these.
  for (const header of ['cuda_runtime_api.h', 'cublas_v2.h', 'cusparse.h', 'cusolverDn.h']) {
    const holds = (folder) => existsSync(path.join(folder, header));
    if (include.some(holds)) continue;
    const root = wheelParts.find((part) => includeFolders(part).some(holds));
    if (!root) return undefined;
    include.push(...includeFolders(root));
  }

  const nccl = [...wheelParts, ...homes, '/usr'].find((root) => existsSync(path.join(root, 'include/nccl.h')));
  const nvcc = [home, ...homes]
    .filter(Boolean)
    .map((root) => path.join(root, 'bin/nvcc'))
    .find((file) => existsSync(file));
  return {
    include,
    // The runtime that libtorch_cuda was made for, before another of the same name.
    cudart: findLibrary([...wheelParts, ...homes], /^libcudart\.so(\.\d+)?$/),
    ncclInclude: nccl && path.join(nccl, 'include'),
    ncclLibrary: nccl && findLibrary([nccl], /^libnccl\.so(\.\d+)?$/),
    nvcc,
    architectures: architectures(),
  };
}

function includeFolders(root) {
  // Since CUDA 13 parts of the C++ library (cuda/std, cub) are in a folder of their own.
  return [path.join(root, 'include'), path.join(root, 'include/cccl')].filter((folder) => existsSync(folder));
}

function nvccHome() {
  const answer = ask('sh', ['-c', 'command -v nvcc']);
  return answer.ok ? path.dirname(path.dirname(realpathSync(answer.stdout.trim()))) : undefined;
}

function findLibrary(roots, pattern) {
  for (const root of roots) {
    for (const folder of ['lib64', 'lib', 'lib/x86_64-linux-gnu', 'targets/x86_64-linux/lib']) {
      const full = path.join(root, folder);
      if (!existsSync(full)) continue;
      const [name] = readdirSync(full)
        .filter((entry) => pattern.test(entry))
        .sort();
      if (name) return path.join(full, name);
    }
  }
  return undefined;
}

/** Machine code for the GPUs that are here; a common set when there are none to ask. */
function architectures() {
  if (process.env.VERLET_CUDA_ARCHITECTURES) return process.env.VERLET_CUDA_ARCHITECTURES;
  const answer = ask('nvidia-smi', ['--query-gpu=compute_cap', '--format=csv,noheader'], { timeoutMs: 20_000 });
  const found = [...new Set(answer.stdout.match(/^\d+\.\d+$/gm) ?? [])].map((version) => version.replace('.', ''));
  // 9.0 has instructions (wgmma, bulk copies) behind the "a" suffix only.
  return found.length ? found.map((version) => (version === '90' ? '90a' : version)).join(';') : '80;90a';
}
