// Log-probabilities of chosen tokens from logits, and their gradient in place: one row at a time while it is in the cache. CUDA
// kernels in cuda/.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>

#include "vector-math.h"

namespace {

struct RowSums {
  float normalizer, entropy, squares;
};

// What is impossible has a logarithm of minus infinity, and adds nothing to an entropy.
VERLET_INLINE float bounded(float log) { return log < -1e4f ? -1e4f : log; }

// Two passes over a row: its largest value, then sums in sixteen lanes, whose order does not depend on the machine's vectors.
VERLET_CLONES RowSums sumRow(const float* x, int64_t n, float scale) {
  constexpr int lanes = 16;
  float tops[lanes], sums[lanes] = {}, products[lanes] = {}, squares[lanes] = {};
  for (int lane = 0; lane < lanes; lane++) tops[lane] = x[0];
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes)
    for (int lane = 0; lane < lanes; lane++) tops[lane] = x[k + lane] > tops[lane] ? x[k + lane] : tops[lane];
  float top = tops[0];
  for (int lane = 1; lane < lanes; lane++) top = tops[lane] > top ? tops[lane] : top;
  for (; k < n; k++) top = x[k] > top ? x[k] : top;
  const float shift = top * scale;
  for (k = 0; k + lanes <= n; k += lanes)
    for (int lane = 0; lane < lanes; lane++) {
      const float y = x[k + lane] * scale - shift, e = fastExp(y);
      sums[lane] += e;
      products[lane] += e * bounded(y);
      squares[lane] += e * e;
    }
  float sum = 0, product = 0, square = 0;
  for (int lane = 0; lane < lanes; lane++) {
    sum += sums[lane];
    product += products[lane];
    square += squares[lane];
  }
  for (; k < n; k++) {
    const float y = x[k] * scale - shift, e = fastExp(y);
    sum += e;
    product += e * bounded(y);
    square += e * e;
  }
  const float log = std::log(sum);
  return {shift + log, log - product / sum, square / sum / sum};
}

VERLET_CLONES void slopeRow(float* x, int64_t n, float scale, float normalizer, float entropy, float outer, float inner) {
  for (int64_t k = 0; k < n; k++) {
    const float y = x[k] * scale - normalizer;
    x[k] = -fastExp(y) * (outer + inner * (bounded(y) + entropy)) * scale;
  }
}

bool isPlain(const at::Tensor& logits) { return logits.scalar_type() == at::kFloat && logits.dim() == 2 && logits.is_contiguous() && logits.size(1) > 0; }

void checkTargets(const at::Tensor& logits, const at::Tensor& targets) {
  TORCH_CHECK(targets.scalar_type() == at::kLong && targets.numel() == logits.size(0), "targets must be int64, one per row of logits");
  const int64_t* wanted = targets.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < targets.numel(); r++)
    TORCH_CHECK(wanted[r] >= 0 && wanted[r] < logits.size(1), "token ", wanted[r], " is not in a vocabulary of ", logits.size(1));
}

// token_log_probs(logits [tokens, vocabulary], targets [tokens] int64, scale)
//   -> (log-probability, log of the normaliser, entropy, sum of squared probabilities), each [tokens] float32, of softmax(logits * scale)
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> tokenLogProbs(const at::Tensor& logits, const at::Tensor& targets, double scale) {
  if (isPlain(logits)) {
    auto wanted = targets.contiguous();
    checkTargets(logits, wanted);
    const int64_t rows = logits.size(0), n = logits.size(1);
    auto results = at::empty({4, rows}, logits.options());
    const float* x = logits.const_data_ptr<float>();
    const int64_t* target = wanted.const_data_ptr<int64_t>();
    float* out = results.mutable_data_ptr<float>();
    at::parallel_for(0, rows, rowsPerThread(n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++) {
        const auto sums = sumRow(x + r * n, n, static_cast<float>(scale));
        out[r] = x[r * n + target[r]] * static_cast<float>(scale) - sums.normalizer;
        out[rows + r] = sums.normalizer;
        out[2 * rows + r] = sums.entropy;
        out[3 * rows + r] = sums.squares;
      }
    });
    return {results[0], results[1], results[2], results[3]};
  }
  auto x = logits.to(at::kFloat) * scale;
  auto normalizer = at::logsumexp(x, -1);
  auto probabilities = at::exp(x - normalizer.unsqueeze(1));
  auto logProb = x.gather(1, targets.unsqueeze(1)).squeeze(1) - normalizer;
  return {logProb, normalizer, normalizer - (probabilities * x).sum(-1), probabilities.square().sum(-1)};
}

// Overwrites the logits with the gradient. d logp / d x = onehot - p;  d entropy / d x = -p (log p + entropy)
at::Tensor& tokenLogProbsBackward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& normalizer, const std::optional<at::Tensor>& entropy,
                                  const at::Tensor& gradLogProb, const std::optional<at::Tensor>& gradEntropy, double scale) {
  TORCH_CHECK(!gradEntropy || entropy, "the gradient of the entropy needs the entropy");
  if (isPlain(logits)) {
    auto wanted = targets.contiguous(), logs = normalizer.contiguous(), outer = gradLogProb.to(at::kFloat).contiguous();
    checkTargets(logits, wanted);
    auto spread = gradEntropy ? entropy->contiguous() : at::Tensor(), inner = gradEntropy ? gradEntropy->to(at::kFloat).contiguous() : at::Tensor();
    const int64_t rows = logits.size(0), n = logits.size(1);
    float* x = logits.mutable_data_ptr<float>();
    const int64_t* target = wanted.const_data_ptr<int64_t>();
    const float *log = logs.const_data_ptr<float>(), *byLogProb = outer.const_data_ptr<float>();
    const float *own = gradEntropy ? spread.const_data_ptr<float>() : nullptr, *byEntropy = gradEntropy ? inner.const_data_ptr<float>() : nullptr;
    at::parallel_for(0, rows, rowsPerThread(n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++) {
        slopeRow(x + r * n, n, static_cast<float>(scale), log[r], own ? own[r] : 0, byLogProb[r], byEntropy ? byEntropy[r] : 0);
        x[r * n + target[r]] += byLogProb[r] * static_cast<float>(scale);
      }
    });
    return logits;
  }
  auto logs = logits.to(at::kFloat) * scale - normalizer.unsqueeze(1);
  auto probabilities = logs.exp();
  auto outer = gradLogProb.to(at::kFloat).unsqueeze(1);
  auto gradient = -probabilities * outer;
  if (gradEntropy) gradient -= gradEntropy->unsqueeze(1) * probabilities * (logs.clamp_min(-1e4) + entropy->unsqueeze(1));
  gradient.scatter_add_(1, targets.unsqueeze(1), outer);
  return logits.copy_(gradient * scale);
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
