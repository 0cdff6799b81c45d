// RMS norm on CUDA, alone, behind a residual sum, and back: each one pass over memory.
#include <algorithm>

#include "../rms-norm.h"
#include "common.cuh"

namespace kernels {
namespace {

// One block per row. With a residual it norms the sum, and writes that too; the same arithmetic either way, so that a norm
// computed again from the sum gives the same bits.
template <typename T>
__global__ void rmsNormKernel(const T* x, const T* residual, const T* weight, float eps, int width, T* normed, T* sum) {
  __shared__ float shared[32];
  constexpr int size = Pack<T>::size;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * width;
  const int packs = width / size;
  float squares = 0;
  for (int p = threadIdx.x; p < packs; p += blockDim.x) {
    auto a = loadPack(x + at + p * size);
    if (residual) {
      const auto b = loadPack(residual + at + p * size);
#pragma unroll
      for (int k = 0; k < size; k++) a.values[k] = narrow<T>(widen(a.values[k]) + widen(b.values[k]));
      storePack(sum + at + p * size, a);
    }
#pragma unroll
    for (int k = 0; k < size; k++) {
      const float value = widen(a.values[k]);
      squares += value * value;
    }
  }
  const float scale = rsqrtf(blockSum(squares, shared) / width + eps);
  const T* from = residual ? sum : x;
  for (int p = threadIdx.x; p < packs; p += blockDim.x) {
    auto a = loadPack(from + at + p * size);
    const auto w = loadPack(weight + p * size);
#pragma unroll
    for (int k = 0; k < size; k++) a.values[k] = narrow<T>(widen(a.values[k]) * scale * widen(w.values[k]));
    storePack(normed + at + p * size, a);
  }
}

// A block takes row after row; each thread owns the same columns in all of them and sums its part of the weight's gradient in
// registers. The parts of the blocks are added up afterwards, always in the same order.
template <typename T, int packsPerThread>
__global__ void __launch_bounds__(1024) rmsNormBackwardKernel(const T* gradient, const T* x, const T* weight, const T* residual, float eps, int width, int64_t rows, T* toX, float* toWeight) {
  __shared__ float shared[64];
  constexpr int size = Pack<T>::size;
  const int packs = width / size;
  float sums[packsPerThread][size] = {};
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t at = row * width;
    Pack<T> xs[packsPerThread], outer[packsPerThread], around[packsPerThread];
    float squares = 0, dot = 0;
#pragma unroll
    for (int i = 0; i < packsPerThread; i++) {
      const int p = threadIdx.x + i * blockDim.x;
      if (p >= packs) break;
      xs[i] = loadPack(x + at + p * size), outer[i] = loadPack(gradient + at + p * size);
      if (residual) around[i] = loadPack(residual + at + p * size);
      const auto w = loadPack(weight + p * size);
#pragma unroll
      for (int k = 0; k < size; k++) {
        const float value = widen(xs[i].values[k]);
        squares += value * value;
        dot += widen(outer[i].values[k]) * widen(w.values[k]) * value;
      }
    }
    const auto total = blockSum2(squares, dot, shared);
    const float scale = rsqrtf(total.x / width + eps), mean = total.y * scale * scale * scale / width;
#pragma unroll
    for (int i = 0; i < packsPerThread; i++) {
      const int p = threadIdx.x + i * blockDim.x;
      if (p >= packs) break;
      const auto w = loadPack(weight + p * size);
#pragma unroll
      for (int k = 0; k < size; k++) {
        const float value = widen(xs[i].values[k]), slope = widen(outer[i].values[k]);
        sums[i][k] += slope * value * scale;
        const float own = slope * widen(w.values[k]) * scale - value * mean;
        xs[i].values[k] = narrow<T>(residual ? own + widen(around[i].values[k]) : own);
      }
      storePack(toX + at + p * size, xs[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < packsPerThread; i++) {
    const int p = threadIdx.x + i * blockDim.x;
    if (p >= packs) break;
#pragma unroll
    for (int k = 0; k < size; k++) toWeight[static_cast<int64_t>(blockIdx.x) * width + p * size + k] = sums[i][k];
  }
}

template <typename T>
int threadsFor(int width) { return std::min(1024, std::max(32, (width / Pack<T>::size + 31) / 32 * 32)); }

// Rows that divide into packs, few enough for one block.
bool canPack(const at::Tensor& x, const at::Tensor& weight) {
  const int size = 16 / x.element_size();
  return x.size(-1) % size == 0 && x.size(-1) / size <= 4096 && x.scalar_type() == weight.scalar_type() && isAligned(x) && isAligned(weight);
}

void launchNorm(const at::Tensor& x, const at::Tensor* residual, const at::Tensor& weight, double eps, const at::Tensor& normed, const at::Tensor* sum) {
  byFloatType(x.scalar_type(), "rms_norm", [&](auto like) {
    using T = decltype(like);
    const int width = static_cast<int>(x.size(-1));
    rmsNormKernel<T><<<x.numel() / width, threadsFor<T>(width), 0, stream()>>>(constPointer<T>(x), residual ? constPointer<T>(*residual) : nullptr, constPointer<T>(weight), eps,
                                                                              width, pointer<T>(normed), sum ? pointer<T>(*sum) : nullptr);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  TORCH_CHECK(x.size(-1) == weight.numel(), "rms_norm: x has ", x.size(-1), " features, the weight ", weight.numel());
  c10::cuda::CUDAGuard guard(x.device());
  auto source = x.contiguous(), w = weight.contiguous();
  if (!canPack(source, w)) return at::rms_norm(x, weight.sizes(), weight, eps);
  auto normed = at::empty_like(source);
  if (x.numel() > 0) launchNorm(source, nullptr, w, eps, normed, nullptr);
  return normed;
}

std::tuple<at::Tensor, at::Tensor> addRmsNorm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  TORCH_CHECK(x.dim() == 2 && x.sizes() == residual.sizes() && weight.numel() == x.size(1), "x and residual must be [rows, width], the weight [width]");
  TORCH_CHECK(x.scalar_type() == residual.scalar_type(), "x and residual must have one dtype");
  c10::cuda::CUDAGuard guard(x.device());
  auto a = x.contiguous(), b = residual.contiguous(), w = weight.contiguous();
  if (!canPack(a, w) || !isAligned(b)) {
    auto sum = x.add(residual);
    return {rmsNorm(sum, weight, eps), sum};
  }
  auto normed = at::empty_like(a), sum = at::empty_like(a);
  if (x.numel() > 0) launchNorm(a, &b, w, eps, normed, &sum);
  return {normed, sum};
}

std::tuple<at::Tensor, at::Tensor> rmsNormBackward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight, double eps,
                                                   const std::optional<at::Tensor>& residual) {
  TORCH_CHECK(gradient.sizes() == x.sizes() && (!residual || residual->sizes() == x.sizes()), "gradients must have the shape of x");
  c10::cuda::CUDAGuard guard(x.device());
  auto outer = gradient.contiguous(), source = x.contiguous(), w = weight.contiguous();
  at::Tensor around = residual ? residual->contiguous() : at::Tensor();
  const bool fits = outer.scalar_type() == x.scalar_type() && isAligned(outer) && (!residual || (around.scalar_type() == x.scalar_type() && isAligned(around)));
  if (!fits || !canPack(source, w) || x.numel() == 0) return composedRmsNormBackward(gradient, x, weight, eps, residual);
  const int width = static_cast<int>(x.size(-1));
  const int64_t rows = x.numel() / width;
  auto toX = at::empty_like(source);
  at::Tensor parts;
  byFloatType(x.scalar_type(), "rms_norm_backward", [&](auto like) {
    using T = decltype(like);
    const int threads = threadsFor<T>(width), each = (width / Pack<T>::size + threads - 1) / threads;
    int device = 0, processors = 0;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const int64_t blocks = std::min<int64_t>(rows, static_cast<int64_t>(processors) * std::clamp(1536 / threads, 1, 16));
    parts = at::empty({blocks, width}, x.options().dtype(at::kFloat));
    auto launch = [&](auto kernel) {
      kernel<<<blocks, threads, 0, stream()>>>(constPointer<T>(outer), constPointer<T>(source), constPointer<T>(w), residual ? constPointer<T>(around) : nullptr, eps, width,
                                               rows, pointer<T>(toX), parts.mutable_data_ptr<float>());
    };
    if (each <= 1)
      launch(rmsNormBackwardKernel<T, 1>);
    else if (each <= 2)
      launch(rmsNormBackwardKernel<T, 2>);
    else
      launch(rmsNormBackwardKernel<T, 4>);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {toX, parts.sum(0)};
}

}  // namespace
}  // namespace kernels

TORCH_LIBRARY_IMPL(verlet, CUDA, library) {
  library.impl("rms_norm", kernels::rmsNorm);
  library.impl("rms_norm_backward", kernels::rmsNormBackward);
  library.impl("add_rms_norm", kernels::addRmsNorm);
}
