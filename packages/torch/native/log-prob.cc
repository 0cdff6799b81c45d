// Log-probabilities of chosen tokens from logits, and their gradient in place; CUDA kernels in cuda/.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>

#include "vector-math.h"

namespace {

struct RowStatistics {
  float logProb, normalizer, entropy, sumSquares;
};

// Of softmax(x * scale). Sums run in sixteen lanes, whose order is the same on every machine.
VERLET_CLONES RowStatistics statisticsOf(const float* x, int64_t n, int64_t target, float scale) {
  const float shift = laneMax(x, n) * scale;
  float mass[16] = {}, first[16] = {}, second[16] = {};
  auto add = [&](int lane, float value) __attribute__((always_inline)) {
    const float distance = value * scale - shift, e = fastExp(distance);
    mass[lane] += e;
    // A distance beyond float's exponents weighs nothing, and minus infinity would make it nothing times infinity.
    first[lane] += e * (distance < -87.0f ? 0.0f : distance);
    second[lane] += e * e;
  };
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (int lane = 0; lane < 16; lane++) add(lane, x[k + lane]);
  for (int lane = 0; k < n; k++, lane++) add(lane, x[k]);
  const float total = foldSum(mass), weighted = foldSum(first), squares = foldSum(second);
  const float logTotal = std::log(total);
  return {x[target] * scale - shift - logTotal, shift + logTotal, logTotal - weighted / total, squares / (total * total)};
}

// d logp / d x = onehot - p;  d entropy / d x = -p (log p + entropy)
VERLET_CLONES void gradientOf(float* x, int64_t n, int64_t target, float scale, float normalizer, float outer, float entropy, float inner) {
  for (int64_t k = 0; k < n; k++) {
    float logs = x[k] * scale - normalizer;
    logs = logs < -1e4f ? -1e4f : logs;
    x[k] = -scale * fastExp(logs) * (outer + inner * (logs + entropy));
  }
  x[target] += scale * outer;
}

void checkTargets(const at::Tensor& logits, const at::Tensor& targets) {
  TORCH_CHECK(logits.dim() == 2 && targets.scalar_type() == at::kLong && targets.numel() == logits.size(0), "there must be one int64 target for each row of logits");
  const int64_t* to = targets.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < targets.numel(); r++)
    TORCH_CHECK(to[r] >= 0 && to[r] < logits.size(1), "target ", to[r], " is not in the vocabulary of ", logits.size(1));
}

// token_log_probs(logits [tokens, vocabulary], targets [tokens] int64, scale)
//   -> (log-probability, log of the normaliser, entropy, sum of squared probabilities), each [tokens] float32, of softmax(logits * scale)
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> tokenLogProbs(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  auto source = logits.to(at::kFloat).contiguous(), to = targets.contiguous();
  checkTargets(source, to);
  const int64_t rows = source.size(0), n = source.size(1);
  auto results = at::empty({4, rows}, source.options());
  const float* x = source.const_data_ptr<float>();
  const int64_t* target = to.const_data_ptr<int64_t>();
  float* out = results.mutable_data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const auto found = statisticsOf(x + r * n, n, target[r], static_cast<float>(scale));
      out[r] = found.logProb;
      out[rows + r] = found.normalizer;
      out[2 * rows + r] = found.entropy;
      out[3 * rows + r] = found.sumSquares;
    }
  });
  return {results[0], results[1], results[2], results[3]};
}

// Overwrites the logits with the gradient.
at::Tensor& tokenLogProbsBackward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& normalizer, const std::optional<at::Tensor>& entropy,
                                  const at::Tensor& gradLogProb, const std::optional<at::Tensor>& gradEntropy, double scale) {
  TORCH_CHECK(!gradEntropy || entropy, "the gradient of the entropy needs the entropy");
  auto work = logits.to(at::kFloat).contiguous(), to = targets.contiguous(), logs = normalizer.contiguous(), outer = gradLogProb.to(at::kFloat).contiguous();
  checkTargets(work, to);
  const int64_t rows = work.size(0), n = work.size(1);
  TORCH_CHECK(logs.numel() == rows && outer.numel() == rows, "there must be one normaliser and one gradient for each row of logits");
  auto own = gradEntropy ? entropy->contiguous() : at::Tensor(), inner = gradEntropy ? gradEntropy->to(at::kFloat).contiguous() : at::Tensor();
  float* x = work.mutable_data_ptr<float>();
  const int64_t* target = to.const_data_ptr<int64_t>();
  const float *shift = logs.const_data_ptr<float>(), *by = outer.const_data_ptr<float>();
  const float *entropies = gradEntropy ? own.const_data_ptr<float>() : nullptr, *slopes = gradEntropy ? inner.const_data_ptr<float>() : nullptr;
  at::parallel_for(0, rows, rowsPerThread(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      gradientOf(x + r * n, n, target[r], static_cast<float>(scale), shift[r], by[r], entropies ? entropies[r] : 0, slopes ? slopes[r] : 0);
  });
  return work.is_same(logits) || work.const_data_ptr() == logits.const_data_ptr() ? logits : logits.copy_(work);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("token_log_probs(Tensor logits, Tensor targets, float scale) -> (Tensor log_prob, Tensor normalizer, Tensor entropy, Tensor sum_squares)");
  library.def(
      "token_log_probs_backward_(Tensor(a!) logits, Tensor targets, Tensor normalizer, Tensor? entropy, Tensor grad_log_prob, Tensor? grad_entropy, "
      "float scale) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("token_log_probs", tokenLogProbs);
  library.impl("token_log_probs_backward_", tokenLogProbsBackward);
}
