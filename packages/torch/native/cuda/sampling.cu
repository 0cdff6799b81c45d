// Drawing tokens on the device. Noise is a function of (seed, stream, position, token id), so a draw depends neither on the
// batch nor on how the vocabulary is cut among threads. Gumbel-max: the token whose logit plus Gumbel noise is largest is a
// draw from the softmax, found in the same pass that sums up the softmax's normaliser.
#include <ATen/core/Tensor.h>

#include "../philox.h"
#include "common.cuh"

namespace kernels {
namespace {

constexpr int sampleThreads = 512;
constexpr int cutThreads = 1024;
constexpr int indexBits = 20;
constexpr float never = -INFINITY;

// w = 1 - u of a uniform u, which floats resolve best where Gumbel noise is largest.
__device__ __forceinline__ float complement(uint32_t bits) { return (static_cast<float>(bits) + 0.5f) * 2.3283064365386963e-10f; }

// -log(-log(1 - w))
__device__ __forceinline__ float gumbel(float w) {
  const float exponential = w < 0.01f ? w * (1.0f + w * (0.5f + w * 0.33333333f)) : -__logf(1.0f - w);
  return -__logf(exponential);
}

struct Rows {
  int64_t vocabulary;
  const float *temperature, *topP, *minP;
  const int64_t *topK, *seed, *stream, *position;
};

__device__ __forceinline__ bool isTruncated(const Rows& rows, int64_t row) {
  const int64_t k = rows.topK[row];
  return rows.temperature[row] > 0 && ((k > 0 && k < rows.vocabulary) || rows.topP[row] < 1 || rows.minP[row] > 0);
}

// Larger for likelier tokens; of equals, the one with the smaller id comes first.
__device__ __forceinline__ uint64_t rankOf(float logit, int64_t index) {
  uint32_t bits = __float_as_uint(logit);
  bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(bits) << indexBits | ((1u << indexBits) - 1 - static_cast<uint32_t>(index));
}

__device__ __forceinline__ unsigned long long blockTotal(unsigned long long x, unsigned long long* shared) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  x = lane < warps ? shared[lane] : 0;
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// For each row that top-k, top-p or min-p truncate: the smallest rank that is kept, and the smallest logit. One block per row;
// the ranks are searched bit by bit, each bit a pass over the row. Rows without truncation leave at once.
template <typename T>
__global__ void __launch_bounds__(cutThreads) cutKernel(const T* logits, Rows rows, uint64_t* cut, float* floorLogit) {
  __shared__ unsigned long long shared[32];
  __shared__ float sharedPeak[32];
  const int64_t row = blockIdx.x, vocabulary = rows.vocabulary;
  if (!isTruncated(rows, row)) {
    if (threadIdx.x == 0) cut[row] = 0, floorLogit[row] = never;
    return;
  }
  const T* x = logits + row * vocabulary;
  float peak = never;
  for (int64_t v = threadIdx.x; v < vocabulary; v += cutThreads) peak = fmaxf(peak, widen(x[v]));
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, offset));
  if ((threadIdx.x & 31) == 0) sharedPeak[threadIdx.x >> 5] = peak;
  __syncthreads();
  for (int w = 0; w < cutThreads / 32; w++) peak = fmaxf(peak, sharedPeak[w]);
  const float heat = 1.0f / rows.temperature[row];
  // Whole numbers: sums do not depend on their order, and never shrink when the set grows.
  auto massOf = [&](float logit) { return static_cast<unsigned long long>(__expf((logit - peak) * heat) * 4294967296.0f); };
  constexpr int size = Pack<T>::size;
  const bool packed = vocabulary % size == 0 && reinterpret_cast<uintptr_t>(logits) % 16 == 0;
  // Sum of `measure` over this thread's tokens.
  auto sum = [&](auto measure) {
    unsigned long long own = 0;
    if (packed) {
      for (int64_t q = threadIdx.x; q < vocabulary / size; q += cutThreads) {
        const auto pack = loadPack(x + q * size);
#pragma unroll
        for (int k = 0; k < size; k++) own += measure(widen(pack.values[k]), q * size + k);
      }
    } else {
      for (int64_t v = threadIdx.x; v < vocabulary; v += cutThreads) own += measure(widen(x[v]), v);
    }
    return blockTotal(own, shared);
  };
  // The largest rank for which `measure` over all tokens at or above it reaches the goal.
  auto search = [&](auto measure, unsigned long long goal) {
    uint64_t found = 0;
    for (int bit = 32 + indexBits - 1; bit >= 0; bit--) {
      if (std::is_same_v<T, __nv_bfloat16> && bit == 16 + indexBits - 1) {
        // bfloat16 has nothing in the lower half; in ranks of negative values, which are inverted, it is all ones.
        if (!(found >> (32 + indexBits - 1))) found |= 0xffffull << indexBits;
        bit = indexBits;
        continue;
      }
      const uint64_t candidate = found | 1ull << bit;
      const unsigned long long total = sum([&](float logit, int64_t v) { return rankOf(logit, v) >= candidate ? measure(logit, v) : 0ull; });
      if (total >= goal) found = candidate;
      if (total == goal) break;
    }
    return found;
  };
  uint64_t lowest = 0;
  const int64_t k = rows.topK[row];
  if (k > 0 && k < vocabulary) lowest = search([](float, int64_t) { return 1ull; }, static_cast<unsigned long long>(k));
  if (rows.topP[row] < 1) {
    const uint64_t kept = lowest;
    auto measure = [&](float logit, int64_t v) { return rankOf(logit, v) >= kept ? massOf(logit) : 0ull; };
    const unsigned long long goal = static_cast<unsigned long long>(static_cast<double>(sum(measure)) * rows.topP[row]);
    lowest = max(lowest, search(measure, max(goal, 1ull)));
  }
  if (threadIdx.x == 0) {
    cut[row] = lowest;
    floorLogit[row] = rows.minP[row] > 0 ? peak + logf(rows.minP[row]) * rows.temperature[row] : never;
  }
}

struct Best {
  float score, logit;
  int32_t index;
  float peak, mass;
};

__device__ __forceinline__ void join(Best& a, const Best& b) {
  if (b.score > a.score || (b.score == a.score && b.index < a.index)) a.score = b.score, a.logit = b.logit, a.index = b.index;
  const float peak = fmaxf(a.peak, b.peak);
  if (peak > never) a.mass = a.mass * __expf(a.peak - peak) + b.mass * __expf(b.peak - peak);
  a.peak = peak;
}

__device__ __forceinline__ Best shuffled(const Best& a, int offset) {
  return {__shfl_xor_sync(0xffffffffu, a.score, offset), __shfl_xor_sync(0xffffffffu, a.logit, offset), __shfl_xor_sync(0xffffffffu, a.index, offset),
          __shfl_xor_sync(0xffffffffu, a.peak, offset), __shfl_xor_sync(0xffffffffu, a.mass, offset)};
}

// One block per (row, part of the vocabulary).
template <typename T, bool aligned>
__global__ void __launch_bounds__(sampleThreads) sampleKernel(const T* logits, Rows rows, const uint64_t* cut, const float* floorLogit, Best* parts) {
  __shared__ Best shared[sampleThreads / 32];
  const int64_t row = blockIdx.x, vocabulary = rows.vocabulary;
  const int64_t groups = (vocabulary + 3) / 4, perPart = (groups + gridDim.y - 1) / gridDim.y;
  const int64_t first = blockIdx.y * perPart, last = min(groups, first + perPart);
  const T* x = logits + row * vocabulary;
  const float temperature = rows.temperature[row];
  const bool greedy = temperature <= 0, truncated = isTruncated(rows, row);
  const float heat = greedy ? 1.0f : 1.0f / temperature;
  const uint64_t lowest = truncated ? cut[row] : 0;
  const float least = truncated ? floorLogit[row] : never;
  const uint64_t key = rows.seed[row], high = rows.stream[row], base = static_cast<uint64_t>(rows.position[row]) << 32;
  Best best{never, 0, INT32_MAX, never, 0};
  for (int64_t g = first + threadIdx.x; g < last; g += sampleThreads) {
    float raw[4];
    if constexpr (aligned) {
      struct alignas(4 * sizeof(T)) Four { T values[4]; };
      const Four four = *reinterpret_cast<const Four*>(x + g * 4);
#pragma unroll
      for (int j = 0; j < 4; j++) raw[j] = widen(four.values[j]);
    } else {
#pragma unroll
      for (int j = 0; j < 4; j++) raw[j] = g * 4 + j < vocabulary ? widen(x[g * 4 + j]) : never;
    }
    const float largest = fmaxf(fmaxf(raw[0], raw[1]), fmaxf(raw[2], raw[3])) * heat;
    if (largest > best.peak) best.mass *= __expf(best.peak - largest), best.peak = largest;
    float share[4];
#pragma unroll
    for (int j = 0; j < 4; j++) share[j] = best.peak > never ? __expf(raw[j] * heat - best.peak) : 0.0f, best.mass += share[j];
    if (greedy) {
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (raw[j] > best.score) best.score = best.logit = raw[j], best.index = static_cast<int32_t>(g * 4 + j);
    } else {
      // A token beats the best so far only if w < 1 - exp(-exp(x - best)), which is less than exp(x - best): logarithms are
      // taken only for the few that pass this.
      const float margin = best.score > never ? __expf(best.peak - best.score) * 1.001f : INFINITY;
      const auto bits = philox::generate(key, high, base | static_cast<uint64_t>(g));
      const uint32_t four[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int64_t v = g * 4 + j;
        const float w = complement(four[j]);
        if (w > share[j] * margin || raw[j] == never || (truncated && (raw[j] < least || rankOf(raw[j], v) < lowest))) continue;
        const float score = raw[j] * heat + gumbel(w);
        if (score > best.score || (score == best.score && v < best.index)) best.score = score, best.logit = raw[j] * heat, best.index = static_cast<int32_t>(v);
      }
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) join(best, shuffled(best, offset));
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < sampleThreads / 32; w++) join(best, shared[w]);
    parts[row * gridDim.y + blockIdx.y] = best;
  }
}

__global__ void chooseKernel(const Best* parts, int count, int64_t rows, int64_t* token, float* logProb) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  Best best = parts[row * count];
  for (int k = 1; k < count; k++) join(best, parts[row * count + k]);
  // Logits that are not numbers leave no choice; the log-probability says so, and the index stays inside the vocabulary.
  token[row] = best.index == INT32_MAX ? 0 : best.index;
  logProb[row] = best.index == INT32_MAX ? NAN : best.logit - best.peak - logf(best.mass);
}

std::tuple<at::Tensor, at::Tensor> sample(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& topK, const at::Tensor& topP, const at::Tensor& minP,
                                          const at::Tensor& seed, const at::Tensor& stream_, const at::Tensor& position) {
  TORCH_CHECK(logits.dim() == 2, "logits must be [rows, vocabulary]");
  auto count = logits.size(0), vocabulary = logits.size(1);
  TORCH_CHECK(vocabulary > 0 && vocabulary < (1 << indexBits), "the vocabulary must have between 1 and ", 1 << indexBits, " tokens");
  c10::cuda::CUDAGuard guard(logits.device());
  auto x = logits.contiguous();
  auto vector = [&](const at::Tensor& tensor, at::ScalarType type) {
    TORCH_CHECK(tensor.numel() == count, "sampling parameters must have one entry per row");
    return tensor.to(logits.device(), type).contiguous();
  };
  auto heat = vector(temperature, at::kFloat), tp = vector(topP, at::kFloat), mp = vector(minP, at::kFloat);
  auto k = vector(topK, at::kLong), s = vector(seed, at::kLong), t = vector(stream_, at::kLong), p = vector(position, at::kLong);
  auto tokens = at::empty({count}, x.options().dtype(at::kLong));
  auto logProbs = at::empty({count}, x.options().dtype(at::kFloat));
  if (count == 0) return {tokens, logProbs};
  Rows rows{vocabulary, heat.const_data_ptr<float>(), tp.const_data_ptr<float>(), mp.const_data_ptr<float>(), k.const_data_ptr<int64_t>(), s.const_data_ptr<int64_t>(),
            t.const_data_ptr<int64_t>(), p.const_data_ptr<int64_t>()};
  int partCount = count >= 256 ? 2 : count >= 64 ? 4 : 16;
  auto cut = at::empty({count}, x.options().dtype(at::kLong)), least = at::empty({count}, x.options().dtype(at::kFloat));
  auto parts = at::empty({count * partCount * static_cast<int64_t>(sizeof(Best))}, x.options().dtype(at::kByte));
  auto* cuts = reinterpret_cast<uint64_t*>(cut.mutable_data_ptr<int64_t>());
  auto* best = reinterpret_cast<Best*>(parts.mutable_data_ptr<uint8_t>());
  byFloatType(x.scalar_type(), "sample", [&](auto like) {
    using T = decltype(like);
    cutKernel<T><<<count, cutThreads, 0, stream()>>>(constPointer<T>(x), rows, cuts, least.mutable_data_ptr<float>());
    dim3 grid(count, partCount);
    if (vocabulary % 4 == 0 && isAligned(x))
      sampleKernel<T, true><<<grid, sampleThreads, 0, stream()>>>(constPointer<T>(x), rows, cuts, least.const_data_ptr<float>(), best);
    else
      sampleKernel<T, false><<<grid, sampleThreads, 0, stream()>>>(constPointer<T>(x), rows, cuts, least.const_data_ptr<float>(), best);
  });
  chooseKernel<<<(count + 127) / 128, 128, 0, stream()>>>(best, partCount, count, tokens.mutable_data_ptr<int64_t>(), logProbs.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {tokens, logProbs};
}

__global__ void uniformKernel(const int64_t* seed, const int64_t* stream_, const int64_t* position, int64_t rows, int64_t n, float* out) {
  const int64_t perRow = (n + 3) / 4, index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= rows * perRow) return;
  const int64_t row = index / perRow, group = index % perRow;
  const auto bits = philox::generate(seed[row], stream_[row], static_cast<uint64_t>(position[row]) << 32 | static_cast<uint64_t>(group));
  const uint32_t four[4] = {bits.x, bits.y, bits.z, bits.w};
  for (int j = 0; j < 4 && group * 4 + j < n; j++) out[row * n + group * 4 + j] = philox::uniform(four[j]);
}

at::Tensor keyedUniform(const at::Tensor& seed, const at::Tensor& stream_, const at::Tensor& position, int64_t n) {
  TORCH_CHECK(seed.scalar_type() == at::kLong && stream_.scalar_type() == at::kLong && position.scalar_type() == at::kLong, "seed, stream and position must be int64");
  TORCH_CHECK(seed.dim() == 1 && seed.sizes() == stream_.sizes() && seed.sizes() == position.sizes(), "seed, stream and position must be vectors of one length");
  c10::cuda::CUDAGuard guard(seed.device());
  auto s = seed.contiguous(), t = stream_.contiguous(), p = position.contiguous();
  auto result = at::empty({seed.size(0), n}, seed.options().dtype(at::kFloat));
  auto work = seed.size(0) * ((n + 3) / 4);
  if (work == 0) return result;
  uniformKernel<<<(work + 255) / 256, 256, 0, stream()>>>(s.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>(), p.const_data_ptr<int64_t>(), seed.size(0), n,
                                                         result.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

__global__ void nextTokensKernel(const int32_t* staged, const int32_t* source, const int64_t* previous, int64_t count, int64_t* out) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < count) out[row] = source[row] >= 0 ? previous[source[row]] : staged[row];
}

at::Tensor nextTokens(const at::Tensor& staged, const at::Tensor& source, const at::Tensor& previous) {
  TORCH_CHECK(staged.scalar_type() == at::kInt && source.scalar_type() == at::kInt && previous.scalar_type() == at::kLong, "staged and source must be int32, previous int64");
  TORCH_CHECK(staged.numel() == source.numel() && staged.is_contiguous() && source.is_contiguous() && previous.is_contiguous(), "staged and source must have one length");
  c10::cuda::CUDAGuard guard(staged.device());
  auto result = at::empty({staged.numel()}, previous.options());
  if (staged.numel() == 0) return result;
  nextTokensKernel<<<(staged.numel() + 127) / 128, 128, 0, stream()>>>(staged.const_data_ptr<int32_t>(), source.const_data_ptr<int32_t>(), previous.const_data_ptr<int64_t>(),
                                                                       staged.numel(), result.mutable_data_ptr<int64_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

}  // namespace
}  // namespace kernels

TORCH_LIBRARY_IMPL(verlet, CUDA, library) {
  library.impl("keyed_uniform", kernels::keyedUniform);
  library.impl("sample", kernels::sample);
  library.impl("next_tokens", kernels::nextTokens);
}
