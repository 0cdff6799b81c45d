// Rotary embedding, SwiGLU and residual + RMS norm on CUDA: each one pass over memory.
#include "common.cuh"

namespace kernels {
namespace {

// One warp per head of a token. Rotates the first `rotated` heads and copies the others.
template <typename T, typename Index>
__global__ void ropeKernel(const T* x, int64_t tokenStride, int64_t headStride, const T* cos, const T* sin, const Index* position, int heads, int rotated,
                           int dim, float sign, int64_t rows, T* out) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (row >= rows) return;
  const int lane = threadIdx.x & 31, half = dim >> 1;
  const int64_t token = row / heads;
  const int head = static_cast<int>(row % heads);
  const T* in = x + token * tokenStride + head * headStride;
  T* to = out + row * dim;
  if (head >= rotated) {
    for (int k = lane; k < dim; k += 32) to[k] = in[k];
    return;
  }
  const int64_t at = static_cast<int64_t>(position[token]) * dim;
  for (int k = lane; k < half; k += 32) {
    const float a = widen(in[k]), b = widen(in[k + half]), c = widen(cos[at + k]), s = sign * widen(sin[at + k]);
    to[k] = narrow<T>(a * c - b * s);
    to[k + half] = narrow<T>(b * c + a * s);
  }
}

// The same, sixteen bytes at a time: a thread takes one pack of a head's first half and its partner in the second.
template <typename T>
__global__ void ropePackedKernel(const T* x, int64_t tokenStride, int64_t headStride, const T* cos, const T* sin, const int64_t* position, int heads, int rotated,
                                 int dim, float sign, int64_t units, T* out) {
  constexpr int size = Pack<T>::size;
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit >= units) return;
  const int half = dim >> 1, perHead = half / size;
  const int64_t row = unit / perHead, token = row / heads;
  const int head = static_cast<int>(row - token * heads), k = static_cast<int>(unit - row * perHead) * size;
  const T* in = x + token * tokenStride + head * headStride + k;
  auto a = loadPack(in), b = loadPack(in + half);
  if (head < rotated) {
    const int64_t at = position[token] * dim + k;
    const auto c = loadPack(cos + at), s = loadPack(sin + at);
#pragma unroll
    for (int j = 0; j < size; j++) {
      const float left = widen(a.values[j]), right = widen(b.values[j]), cosine = widen(c.values[j]), sine = sign * widen(s.values[j]);
      a.values[j] = narrow<T>(left * cosine - right * sine);
      b.values[j] = narrow<T>(right * cosine + left * sine);
    }
  }
  storePack(out + row * dim + k, a);
  storePack(out + row * dim + k + half, b);
}

at::Tensor ropePartial(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, int64_t rotated, bool inverse) {
  TORCH_CHECK(x.dim() == 3 && cos.dim() == 2 && x.size(2) == cos.size(1) && x.size(2) % 2 == 0, "x must be [tokens, heads, dim], the tables [positions, dim]");
  TORCH_CHECK(position.scalar_type() == at::kLong && position.numel() == x.size(0), "position must be int64, one per token");
  TORCH_CHECK(cos.scalar_type() == x.scalar_type() && sin.scalar_type() == x.scalar_type(), "x and the tables must have one dtype");
  c10::cuda::CUDAGuard guard(x.device());
  auto source = x.stride(2) == 1 ? x : x.contiguous();
  auto c = cos.contiguous(), s = sin.contiguous(), places = position.contiguous();
  auto tokens = x.size(0), heads = x.size(1), dim = x.size(2), rows = tokens * heads;
  auto result = at::empty({tokens, heads, dim}, x.options());
  if (rows == 0) return result;
  byFloatType(x.scalar_type(), "rope", [&](auto like) {
    using T = decltype(like);
    constexpr int size = Pack<T>::size;
    if ((dim / 2) % size == 0 && source.stride(0) % size == 0 && source.stride(1) % size == 0 && isAligned(source) && isAligned(c) && isAligned(s)) {
      const int64_t units = rows * (dim / 2 / size);
      ropePackedKernel<T><<<(units + 255) / 256, 256, 0, stream()>>>(constPointer<T>(source), source.stride(0), source.stride(1), constPointer<T>(c), constPointer<T>(s),
                                                                    places.const_data_ptr<int64_t>(), heads, rotated, dim, inverse ? -1.0f : 1.0f, units, pointer<T>(result));
      return;
    }
    ropeKernel<T, int64_t><<<(rows + 7) / 8, 256, 0, stream()>>>(constPointer<T>(source), source.stride(0), source.stride(1), constPointer<T>(c), constPointer<T>(s),
                                                                places.const_data_ptr<int64_t>(), heads, rotated, dim, inverse ? -1.0f : 1.0f, rows, pointer<T>(result));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, bool inverse) {
  return ropePartial(x, cos, sin, position, x.size(1), inverse);
}

// One warp per head of a token: RMS norm of q and k where the model has it, rotation of q and k in place, keys and values
// into the cache.
template <typename T>
__global__ void ropeCacheKernel(T* qkv, int64_t tokenStride, const T* cos, const T* sin, const int32_t* position, const int32_t* slot, T* keys, T* values, int heads,
                                int kvHeads, int dim, const T* qWeight, const T* kWeight, float eps, int64_t rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (row >= rows) return;
  const int total = heads + 2 * kvHeads, lane = threadIdx.x & 31, half = dim >> 1;
  const int64_t token = row / total;
  const int head = static_cast<int>(row % total);
  T* x = qkv + token * tokenStride + static_cast<int64_t>(head) * dim;
  const int32_t to = slot[token];
  if (head >= heads + kvHeads) {
    if (to < 0) return;
    T* value = values + (static_cast<int64_t>(to) * kvHeads + (head - heads - kvHeads)) * dim;
    for (int k = lane; k < dim; k += 32) value[k] = x[k];
    return;
  }
  const T* weight = head < heads ? qWeight : kWeight;
  float scale = 1.0f;
  if (weight) {
    float sum = 0;
    for (int k = lane; k < dim; k += 32) {
      const float value = widen(x[k]);
      sum += value * value;
    }
    scale = rsqrtf(warpSum(sum) / dim + eps);
  }
  const int64_t at = static_cast<int64_t>(position[token]) * dim;
  T* key = head >= heads && to >= 0 ? keys + (static_cast<int64_t>(to) * kvHeads + (head - heads)) * dim : nullptr;
  for (int k = lane; k < half; k += 32) {
    float a = widen(x[k]), b = widen(x[k + half]);
    if (weight) {
      // Rounded as the separate norm would round it.
      a = widen(narrow<T>(a * scale * widen(weight[k])));
      b = widen(narrow<T>(b * scale * widen(weight[k + half])));
    }
    const float c = widen(cos[at + k]), s = widen(sin[at + k]);
    const T low = narrow<T>(a * c - b * s), high = narrow<T>(b * c + a * s);
    x[k] = low;
    x[k + half] = high;
    if (key) {
      key[k] = low;
      key[k + half] = high;
    }
  }
}

void ropeCache(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, const at::Tensor& keys, const at::Tensor& values,
               const at::Tensor& slot, int64_t heads, const std::optional<at::Tensor>& qWeight, const std::optional<at::Tensor>& kWeight, double eps) {
  TORCH_CHECK(qkv.dim() == 3 && qkv.stride(2) == 1 && qkv.stride(1) == qkv.size(2), "qkv must be [tokens, heads + 2 kvHeads, dim] with heads side by side");
  TORCH_CHECK(keys.is_contiguous() && values.is_contiguous() && cos.is_contiguous() && sin.is_contiguous(), "the cache and the tables must be contiguous");
  TORCH_CHECK(position.scalar_type() == at::kInt && slot.scalar_type() == at::kInt && position.is_contiguous() && slot.is_contiguous(), "position and slot must be int32");
  auto type = qkv.scalar_type();
  TORCH_CHECK(keys.scalar_type() == type && values.scalar_type() == type && cos.scalar_type() == type, "qkv, the tables and the cache must have one dtype");
  auto tokens = qkv.size(0), dim = qkv.size(2), kvHeads = keys.size(-2), rows = tokens * qkv.size(1);
  TORCH_CHECK(qkv.size(1) == heads + 2 * kvHeads && keys.size(-1) == dim && cos.size(1) == dim && dim % 2 == 0, "heads do not match the cache");
  if (rows == 0) return;
  c10::cuda::CUDAGuard guard(qkv.device());
  byFloatType(type, "rope_cache_", [&](auto like) {
    using T = decltype(like);
    ropeCacheKernel<T><<<(rows + 7) / 8, 256, 0, stream()>>>(
        pointer<T>(qkv), qkv.stride(0), constPointer<T>(cos), constPointer<T>(sin), position.const_data_ptr<int32_t>(), slot.const_data_ptr<int32_t>(), pointer<T>(keys),
        pointer<T>(values), heads, kvHeads, dim, qWeight ? constPointer<T>(*qWeight) : nullptr, kWeight ? constPointer<T>(*kWeight) : nullptr, eps, rows);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

template <typename T>
__global__ void swigluKernel(const T* x, int64_t width, int64_t packs, T* out) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  constexpr int size = Pack<T>::size;
  const int64_t perRow = width / size, row = index / perRow, column = (index % perRow) * size;
  const auto gate = loadPack(x + row * 2 * width + column), up = loadPack(x + row * 2 * width + width + column);
  Pack<T> result;
#pragma unroll
  for (int k = 0; k < size; k++) {
    const float g = widen(gate.values[k]);
    result.values[k] = narrow<T>(g * sigmoid(g) * widen(up.values[k]));
  }
  storePack(out + row * width + column, result);
}

template <typename T>
__global__ void swigluBackwardKernel(const T* gradient, const T* x, int64_t width, int64_t packs, T* out) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  constexpr int size = Pack<T>::size;
  const int64_t perRow = width / size, row = index / perRow, column = (index % perRow) * size, at = row * 2 * width + column;
  const auto outer = loadPack(gradient + row * width + column), gate = loadPack(x + at), up = loadPack(x + at + width);
  Pack<T> gradGate, gradUp;
#pragma unroll
  for (int k = 0; k < size; k++) {
    const float d = widen(outer.values[k]), g = widen(gate.values[k]), s = sigmoid(g);
    gradUp.values[k] = narrow<T>(d * g * s);
    gradGate.values[k] = narrow<T>(d * widen(up.values[k]) * s * (1.0f + g * (1.0f - s)));
  }
  storePack(out + at, gradGate);
  storePack(out + at + width, gradUp);
}

at::Tensor swiglu(const at::Tensor& x) {
  c10::cuda::CUDAGuard guard(x.device());
  auto width = x.size(-1) / 2;
  auto sizes = x.sizes().vec();
  sizes.back() = width;
  auto source = x.contiguous();
  auto result = at::empty(sizes, x.options());
  if (result.numel() == 0) return result;
  byFloatType(x.scalar_type(), "swiglu", [&](auto like) {
    using T = decltype(like);
    TORCH_CHECK(width % Pack<T>::size == 0 && isAligned(source), "swiglu: the width must be a multiple of ", Pack<T>::size);
    auto packs = result.numel() / Pack<T>::size;
    swigluKernel<T><<<(packs + 255) / 256, 256, 0, stream()>>>(constPointer<T>(source), width, packs, pointer<T>(result));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

at::Tensor swigluBackward(const at::Tensor& gradient, const at::Tensor& x) {
  c10::cuda::CUDAGuard guard(x.device());
  auto width = x.size(-1) / 2;
  auto source = x.contiguous(), outer = gradient.contiguous();
  auto result = at::empty(x.sizes(), x.options());
  if (result.numel() == 0) return result;
  byFloatType(x.scalar_type(), "swiglu_backward", [&](auto like) {
    using T = decltype(like);
    TORCH_CHECK(width % Pack<T>::size == 0 && isAligned(source) && isAligned(outer), "swiglu: the width must be a multiple of ", Pack<T>::size);
    auto packs = outer.numel() / Pack<T>::size;
    swigluBackwardKernel<T><<<(packs + 255) / 256, 256, 0, stream()>>>(constPointer<T>(outer), constPointer<T>(source), width, packs, pointer<T>(result));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

// One block per row; up to two packs per thread stay in registers between the two passes.
template <typename T>
__global__ void addRmsNormKernel(const T* x, const T* residual, const T* weight, float eps, int width, T* normed, T* sum) {
  __shared__ float shared[32];
  constexpr int size = Pack<T>::size;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * width;
  const int packs = width / size;
  float squares = 0;
  for (int p = threadIdx.x; p < packs; p += blockDim.x) {
    auto a = loadPack(x + at + p * size);
    const auto b = loadPack(residual + at + p * size);
#pragma unroll
    for (int k = 0; k < size; k++) {
      a.values[k] = narrow<T>(widen(a.values[k]) + widen(b.values[k]));
      const float value = widen(a.values[k]);
      squares += value * value;
    }
    storePack(sum + at + p * size, a);
  }
  const float scale = rsqrtf(blockSum(squares, shared) / width + eps);
  for (int p = threadIdx.x; p < packs; p += blockDim.x) {
    auto a = loadPack(sum + at + p * size);
    const auto w = loadPack(weight + p * size);
#pragma unroll
    for (int k = 0; k < size; k++) a.values[k] = narrow<T>(widen(a.values[k]) * scale * widen(w.values[k]));
    storePack(normed + at + p * size, a);
  }
}

std::tuple<at::Tensor, at::Tensor> addRmsNorm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  TORCH_CHECK(x.dim() == 2 && x.sizes() == residual.sizes() && weight.numel() == x.size(1), "x and residual must be [rows, width], the weight [width]");
  TORCH_CHECK(x.scalar_type() == residual.scalar_type() && x.scalar_type() == weight.scalar_type(), "x, residual and weight must have one dtype");
  c10::cuda::CUDAGuard guard(x.device());
  auto a = x.contiguous(), b = residual.contiguous(), w = weight.contiguous();
  auto normed = at::empty_like(a), sum = at::empty_like(a);
  if (x.numel() == 0) return {normed, sum};
  byFloatType(x.scalar_type(), "add_rms_norm", [&](auto like) {
    using T = decltype(like);
    auto width = static_cast<int>(x.size(1));
    TORCH_CHECK(width % Pack<T>::size == 0 && isAligned(a) && isAligned(b) && isAligned(w), "add_rms_norm: the width must be a multiple of ", Pack<T>::size);
    int threads = std::min(1024, std::max(32, (width / Pack<T>::size + 31) / 32 * 32));
    addRmsNormKernel<T><<<x.size(0), threads, 0, stream()>>>(constPointer<T>(a), constPointer<T>(b), constPointer<T>(w), eps, width, pointer<T>(normed), pointer<T>(sum));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {normed, sum};
}

}  // namespace
}  // namespace kernels

TORCH_LIBRARY_IMPL(verlet, CUDA, library) {
  library.impl("rope", kernels::rope);
  library.impl("rope_partial", kernels::ropePartial);
  library.impl("rope_cache_", kernels::ropeCache);
  library.impl("swiglu", kernels::swiglu);
  library.impl("swiglu_backward", kernels::swigluBackward);
  library.impl("add_rms_norm", kernels::addRmsNorm);
}
