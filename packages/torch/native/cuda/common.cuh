// What the kernels share: 16-byte packs of floats, reductions, launch checks. All arithmetic is in float32.
#pragma once
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/library.h>

namespace kernels {

inline cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }

template <typename T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) { return x; }
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) { return __float2bfloat16(x); }
template <>
__device__ __forceinline__ __half narrow<__half>(float x) { return __float2half(x); }

// Sixteen bytes of T at a time.
template <typename T>
struct alignas(16) Pack {
  static constexpr int size = 16 / sizeof(T);
  T values[size];
};

template <typename T>
__device__ __forceinline__ Pack<T> loadPack(const T* from) { return *reinterpret_cast<const Pack<T>*>(from); }
template <typename T>
__device__ __forceinline__ void storePack(T* to, const Pack<T>& pack) { *reinterpret_cast<Pack<T>*>(to) = pack; }

__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// Sum over the block, known to all its threads. `shared` holds 32 floats.
__device__ __forceinline__ float blockSum(float x, float* shared) {
  x = warpSum(x);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = (blockDim.x + 31) >> 5;
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warpSum(lane < warps ? shared[lane] : 0.0f);
}

// Two sums at once. `shared` holds 64 floats.
__device__ __forceinline__ float2 blockSum2(float x, float y, float* shared) {
  x = warpSum(x), y = warpSum(y);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = (blockDim.x + 31) >> 5;
  __syncthreads();
  if (lane == 0) shared[warp] = x, shared[32 + warp] = y;
  __syncthreads();
  return {warpSum(lane < warps ? shared[lane] : 0.0f), warpSum(lane < warps ? shared[32 + lane] : 0.0f)};
}

inline bool isAligned(const at::Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0; }

// Calls `body` with a value of the CUDA type that stands for the tensor's dtype.
template <typename Body>
void byFloatType(at::ScalarType type, const char* name, Body body) {
  switch (type) {
    case at::kFloat: return body(float{});
    case at::kBFloat16: return body(__nv_bfloat16{});
    case at::kHalf: return body(__half{});
    default: TORCH_CHECK(false, name, " runs in float32, bfloat16 and float16, not in ", type);
  }
}

template <typename T>
T* pointer(const at::Tensor& tensor) { return static_cast<T*>(tensor.mutable_data_ptr()); }
template <typename T>
const T* constPointer(const at::Tensor& tensor) { return static_cast<const T*>(tensor.const_data_ptr()); }

}  // namespace kernels
