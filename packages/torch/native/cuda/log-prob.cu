// Log-probabilities of chosen tokens straight from 16-bit logits: one pass forward, one pass (in place) back.
#include "common.cuh"

namespace kernels {
namespace {

constexpr int threads = 512;

struct Sums {
  float peak, mass, weighted, squares;
};

__device__ __forceinline__ void join(Sums& a, const Sums& b) {
  const float peak = fmaxf(a.peak, b.peak);
  if (peak == -INFINITY) return;
  const float left = __expf(a.peak - peak), right = __expf(b.peak - peak);
  a = {peak, a.mass * left + b.mass * right, a.weighted * left + b.weighted * right, a.squares * left * left + b.squares * right * right};
}

// Adds values to the sums; their peak is found first, so that the sums shrink once for all of them.
template <int count>
__device__ __forceinline__ void add(Sums& sums, const float (&values)[count]) {
  float peak = values[0];
#pragma unroll
  for (int k = 1; k < count; k++) peak = fmaxf(peak, values[k]);
  if (peak == -INFINITY) return;
  if (peak > sums.peak) {
    const float shrink = __expf(sums.peak - peak);
    sums = {peak, sums.mass * shrink, sums.weighted * shrink, sums.squares * shrink * shrink};
  }
#pragma unroll
  for (int k = 0; k < count; k++) {
    const float e = __expf(values[k] - sums.peak);
    // A value of minus infinity has no weight; times zero it would be no number.
    sums.mass += e, sums.weighted += e * fmaxf(values[k], -1e30f), sums.squares += e * e;
  }
}

// One block per token. `weighted` is the sum of p x and `squares` that of p^2, both before division by the mass.
template <typename T>
__global__ void __launch_bounds__(threads) logProbKernel(const T* logits, const int64_t* targets, int64_t vocabulary, float scale, bool packed, float* logProb,
                                                         float* normalizer, float* entropy, float* sumSquares) {
  __shared__ Sums shared[threads / 32];
  constexpr int size = Pack<T>::size;
  const int64_t row = blockIdx.x;
  const T* x = logits + row * vocabulary;
  Sums sums{-INFINITY, 0, 0, 0};
  if (packed) {
    // Two packs are asked for before the first is used.
    const int packs = static_cast<int>(vocabulary / size);
    for (int p = threadIdx.x; p < packs; p += 2 * threads) {
      const bool both = p + threads < packs;
      const auto first = loadPack(x + static_cast<int64_t>(p) * size), second = loadPack(x + static_cast<int64_t>(both ? p + threads : p) * size);
      float values[size];
#pragma unroll
      for (int k = 0; k < size; k++) values[k] = widen(first.values[k]) * scale;
      add(sums, values);
      if (!both) break;
#pragma unroll
      for (int k = 0; k < size; k++) values[k] = widen(second.values[k]) * scale;
      add(sums, values);
    }
  } else {
    for (int64_t v = threadIdx.x; v < vocabulary; v += threads) {
      const float values[1] = {widen(x[v]) * scale};
      add(sums, values);
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1)
    join(sums, {__shfl_xor_sync(0xffffffffu, sums.peak, offset), __shfl_xor_sync(0xffffffffu, sums.mass, offset), __shfl_xor_sync(0xffffffffu, sums.weighted, offset),
                __shfl_xor_sync(0xffffffffu, sums.squares, offset)});
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = sums;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < threads / 32; w++) join(sums, shared[w]);
  const float total = sums.peak + logf(sums.mass);
  logProb[row] = widen(x[targets[row]]) * scale - total;
  normalizer[row] = total;
  entropy[row] = total - sums.weighted / sums.mass;
  sumSquares[row] = sums.squares / (sums.mass * sums.mass);
}

// d logp / d x = onehot - p;  d entropy / d x = -p (log p + entropy)
template <typename T>
__global__ void __launch_bounds__(threads) logProbBackwardKernel(T* logits, const int64_t* targets, const float* normalizer, const float* entropy, const float* gradLogProb,
                                                                 const float* gradEntropy, int64_t vocabulary, float scale, bool packed) {
  constexpr int size = Pack<T>::size;
  const int64_t row = blockIdx.x, target = targets[row];
  T* x = logits + row * vocabulary;
  const float total = normalizer[row], outer = gradLogProb[row], inner = gradEntropy ? gradEntropy[row] : 0, level = gradEntropy ? entropy[row] : 0;
  auto gradient = [&](float raw, int64_t v) {
    const float log = raw * scale - total, p = __expf(log);
    float g = -p * (outer + (inner != 0 && p > 0 ? inner * (log + level) : 0.0f));
    if (v == target) g += outer;
    return narrow<T>(g * scale);
  };
  if (packed) {
    for (int64_t q = threadIdx.x; q < vocabulary / size; q += threads) {
      auto pack = loadPack(x + q * size);
#pragma unroll
      for (int k = 0; k < size; k++) pack.values[k] = gradient(widen(pack.values[k]), q * size + k);
      storePack(x + q * size, pack);
    }
  } else {
    for (int64_t v = threadIdx.x; v < vocabulary; v += threads) x[v] = gradient(widen(x[v]), v);
  }
}

template <typename T>
bool canPack(const at::Tensor& logits) { return logits.size(1) % Pack<T>::size == 0 && isAligned(logits); }

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> tokenLogProbs(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  TORCH_CHECK(logits.dim() == 2 && logits.is_contiguous(), "logits must be [tokens, vocabulary], contiguous");
  TORCH_CHECK(targets.scalar_type() == at::kLong && targets.numel() == logits.size(0), "targets must be int64, one per token");
  c10::cuda::CUDAGuard guard(logits.device());
  auto chosen = targets.contiguous();
  auto make = [&] { return at::empty({logits.size(0)}, logits.options().dtype(at::kFloat)); };
  auto logProb = make(), normalizer = make(), entropy = make(), squares = make();
  if (logits.size(0) == 0) return {logProb, normalizer, entropy, squares};
  byFloatType(logits.scalar_type(), "token_log_probs", [&](auto like) {
    using T = decltype(like);
    logProbKernel<T><<<logits.size(0), threads, 0, stream()>>>(constPointer<T>(logits), chosen.const_data_ptr<int64_t>(), logits.size(1), scale, canPack<T>(logits),
                                                              logProb.mutable_data_ptr<float>(), normalizer.mutable_data_ptr<float>(), entropy.mutable_data_ptr<float>(),
                                                              squares.mutable_data_ptr<float>());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {logProb, normalizer, entropy, squares};
}

at::Tensor& tokenLogProbsBackward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& normalizer, const std::optional<at::Tensor>& entropy,
                                  const at::Tensor& gradLogProb, const std::optional<at::Tensor>& gradEntropy, double scale) {
  TORCH_CHECK(logits.dim() == 2 && logits.is_contiguous(), "logits must be [tokens, vocabulary], contiguous");
  TORCH_CHECK(!gradEntropy || entropy, "the gradient of the entropy needs the entropy");
  c10::cuda::CUDAGuard guard(logits.device());
  auto chosen = targets.contiguous(), total = normalizer.contiguous(), outer = gradLogProb.to(at::kFloat).contiguous();
  at::Tensor inner = gradEntropy ? gradEntropy->to(at::kFloat).contiguous() : at::Tensor(), level = entropy ? entropy->contiguous() : at::Tensor();
  for (const auto& vector : {chosen, total, outer}) TORCH_CHECK(vector.numel() == logits.size(0), "targets, normalizer and gradients must have one entry per token");
  if (logits.size(0) == 0) return logits;
  byFloatType(logits.scalar_type(), "token_log_probs_backward_", [&](auto like) {
    using T = decltype(like);
    logProbBackwardKernel<T><<<logits.size(0), threads, 0, stream()>>>(
        pointer<T>(logits), chosen.const_data_ptr<int64_t>(), total.const_data_ptr<float>(), level.defined() ? level.const_data_ptr<float>() : nullptr,
        outer.const_data_ptr<float>(), inner.defined() ? inner.const_data_ptr<float>() : nullptr, logits.size(1), scale, canPack<T>(logits));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return logits;
}

}  // namespace
}  // namespace kernels

TORCH_LIBRARY_IMPL(verlet, CUDA, library) {
  library.impl("token_log_probs", kernels::tokenLogProbs);
  library.impl("token_log_probs_backward_", kernels::tokenLogProbsBackward);
}
