// Log-probabilities of chosen tokens from logits, and their gradient in place; CUDA kernels in cuda/.
#include <torch/library.h>
#include <torch/torch.h>

namespace {

// token_log_probs(logits [tokens, vocabulary], targets [tokens] int64, scale)
//   -> (log-probability, log of the normaliser, entropy, sum of squared probabilities), each [tokens] float32, of softmax(logits * scale)
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> tokenLogProbs(const at::Tensor& logits, const at::Tensor& targets, double scale) {
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
