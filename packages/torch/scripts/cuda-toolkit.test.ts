import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { findCudaToolkit } from './cuda-toolkit.mjs';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'verlet-cuda-'));
  vi.stubEnv('CUDA_HOME', path.join(folder, 'toolkit'));
  vi.stubEnv('CUDA_PATH', undefined);
  vi.stubEnv('PATH', '/usr/bin:/bin');
  vi.stubEnv('VERLET_CUDA_ARCHITECTURES', '90a');
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function write(...files: string[]) {
  for (const file of files) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
    writeFileSync(path.join(folder, file), '');
  }
}
const find = () => findCudaToolkit({ folder: path.join(folder, 'site/torch') });

describe('findCudaToolkit', () => {
  it('adds from the wheels what the toolkit lacks, and prefers their runtime', () => {
    write('toolkit/include/cuda_runtime_api.h', 'toolkit/bin/nvcc', 'toolkit/lib64/libcudart.so');
    write(
      'site/nvidia/cu13/include/cublas_v2.h',
      'site/nvidia/cu13/include/cusparse.h',
      'site/nvidia/cu13/include/cusolverDn.h',
    );
    write(
      'site/nvidia/cu13/lib/libcudart.so.13',
      'site/nvidia/nccl/include/nccl.h',
      'site/nvidia/nccl/lib/libnccl.so.2',
    );
    expect(find()).toEqual({
      include: [path.join(folder, 'toolkit/include'), path.join(folder, 'site/nvidia/cu13/include')],
      cudart: path.join(folder, 'site/nvidia/cu13/lib/libcudart.so.13'),
      ncclInclude: path.join(folder, 'site/nvidia/nccl/include'),
      ncclLibrary: path.join(folder, 'site/nvidia/nccl/lib/libnccl.so.2'),
      nvcc: path.join(folder, 'toolkit/bin/nvcc'),
      architectures: '90a',
    });
  });

  it('works from a toolkit alone, without NCCL', () => {
    write(
      ...['cuda_runtime_api.h', 'cublas_v2.h', 'cusparse.h', 'cusolverDn.h'].map((name) => `toolkit/include/${name}`),
    );
    write('toolkit/lib64/libcudart.so');
    expect(find()).toMatchObject({ include: [path.join(folder, 'toolkit/include')], nvcc: undefined });
  });

  it('finds nothing where a header is in neither place', () => {
    write('site/nvidia/cu13/include/cublas_v2.h');
    vi.stubEnv('CUDA_HOME', '/nowhere');
    expect(find()).toBeUndefined();
  });
});
