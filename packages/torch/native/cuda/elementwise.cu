// Rotary embedding and SwiGLU on CUDA: each one pass over memory.
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

// Gradients of queries, keys and values into the gradient of their common projection: the first two turned back, the last copied.
template <typename T>
__global__ void ropeBackwardKernel(const T* q, const T* k, const T* v, const T* cos, const T* sin, const int64_t* position, int heads, int kvHeads, int dim, int64_t units,
                                   T* out) {
  constexpr int size = Pack<T>::size;
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit >= units) return;
  const int half = dim >> 1, perHead = half / size, total = heads + 2 * kvHeads;
  const int64_t row = unit / perHead, token = row / total;
  const int head = static_cast<int>(row - token * total), at = static_cast<int>(unit - row * perHead) * size;
  const T* in = head < heads             ? q + (token * heads + head) * dim
                : head < heads + kvHeads ? k + (token * kvHeads + head - heads) * dim
                                         : v + (token * kvHeads + head - heads - kvHeads) * dim;
  auto a = loadPack(in + at), b = loadPack(in + at + half);
  if (head < heads + kvHeads) {
    const int64_t angle = position[token] * dim + at;
    const auto c = loadPack(cos + angle), s = loadPack(sin + angle);
#pragma unroll
    for (int j = 0; j < size; j++) {
      const float left = widen(a.values[j]), right = widen(b.values[j]), cosine = widen(c.values[j]), sine = widen(s.values[j]);
      a.values[j] = narrow<T>(left * cosine + right * sine);
      b.values[j] = narrow<T>(right * cosine - left * sine);
    }
  }
  storePack(out + row * dim + at, a);
  storePack(out + row * dim + at + half, b);
}

at::Tensor ropeBackward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && k.sizes() == v.sizes() && q.size(0) == k.size(0) && q.size(2) == k.size(2), "q must be [tokens, heads, dim], k and v [tokens, kvHeads, dim]");
  TORCH_CHECK(cos.size(1) == q.size(2) && cos.scalar_type() == q.scalar_type() && k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(),
              "q, k, v and the tables must have one dtype and dim");
  TORCH_CHECK(position.scalar_type() == at::kLong && position.numel() == q.size(0), "position must be int64, one per token");
  c10::cuda::CUDAGuard guard(q.device());
  auto tokens = q.size(0), heads = q.size(1), kvHeads = k.size(1), dim = q.size(2), rows = tokens * (heads + 2 * kvHeads);
  auto qs = q.contiguous(), ks = k.contiguous(), vs = v.contiguous(), c = cos.contiguous(), s = sin.contiguous(), places = position.contiguous();
  auto result = at::empty({tokens, heads + 2 * kvHeads, dim}, q.options());
  if (rows == 0) return result;
  bool packed = true;
  byFloatType(q.scalar_type(), "rope_backward", [&](auto like) {
    using T = decltype(like);
    constexpr int size = Pack<T>::size;
    packed = (dim / 2) % size == 0 && dim % 2 == 0 && isAligned(qs) && isAligned(ks) && isAligned(vs) && isAligned(c) && isAligned(s);
    if (!packed) return;
    const int64_t units = rows * (dim / 2 / size);
    ropeBackwardKernel<T><<<(units + 255) / 256, 256, 0, stream()>>>(constPointer<T>(qs), constPointer<T>(ks), constPointer<T>(vs), constPointer<T>(c), constPointer<T>(s),
                                                                    places.const_data_ptr<int64_t>(), heads, kvHeads, dim, units, pointer<T>(result));
  });
  if (!packed) return ropePartial(at::cat({qs, ks, vs}, 1), cos, sin, position, heads + kvHeads, true);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
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

// In place: the gradient becomes the activation, x its gradient.
template <typename T>
__global__ void swigluBackwardInPlaceKernel(T* gradient, T* x, int64_t width, int64_t packs) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  constexpr int size = Pack<T>::size;
  const int64_t perRow = width / size, row = index / perRow, column = (index % perRow) * size, at = row * 2 * width + column;
  auto outer = loadPack(gradient + row * width + column), gate = loadPack(x + at), up = loadPack(x + at + width);
#pragma unroll
  for (int k = 0; k < size; k++) {
    const float d = widen(outer.values[k]), g = widen(gate.values[k]), u = widen(up.values[k]), s = sigmoid(g);
    outer.values[k] = narrow<T>(g * s * u);
    up.values[k] = narrow<T>(d * g * s);
    gate.values[k] = narrow<T>(d * u * s * (1.0f + g * (1.0f - s)));
  }
  storePack(gradient + row * width + column, outer);
  storePack(x + at, gate);
  storePack(x + at + width, up);
}

void swigluBackwardInPlace(const at::Tensor& gradient, const at::Tensor& x) {
  TORCH_CHECK(gradient.numel() * 2 == x.numel() && gradient.scalar_type() == x.scalar_type(), "the gradient must be half as wide as x, in its dtype");
  TORCH_CHECK(gradient.is_contiguous() && x.is_contiguous(), "swiglu_backward_ needs contiguous tensors");
  if (x.numel() == 0) return;
  c10::cuda::CUDAGuard guard(x.device());
  auto width = x.size(-1) / 2;
  byFloatType(x.scalar_type(), "swiglu_backward_", [&](auto like) {
    using T = decltype(like);
    TORCH_CHECK(width % Pack<T>::size == 0 && isAligned(x) && isAligned(gradient), "swiglu: the width must be a multiple of ", Pack<T>::size);
    auto packs = gradient.numel() / Pack<T>::size;
    swigluBackwardInPlaceKernel<T><<<(packs + 255) / 256, 256, 0, stream()>>>(pointer<T>(gradient), pointer<T>(x), width, packs);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace
}  // namespace kernels

TORCH_LIBRARY_IMPL(verlet, CUDA, library) {
  library.impl("rope", kernels::rope);
  library.impl("rope_partial", kernels::ropePartial);
  library.impl("rope_backward", kernels::ropeBackward);
  library.impl("rope_cache_", kernels::ropeCache);
  library.impl("swiglu", kernels::swiglu);
  library.impl("swiglu_backward", kernels::swigluBackward);
  library.impl("swiglu_backward_", kernels::swigluBackwardInPlace);
}
