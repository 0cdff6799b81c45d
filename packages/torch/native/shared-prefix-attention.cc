// Attention on CUDA of sequences that go on from shared ones: many answers to one prompt, which is there once. FlashAttention
// has no such mask, but the log of the softmax's normalizer that it returns lets two of its passes be joined exactly: every
// sequence to itself, causally, and the answers to their prompt, all of it. Backward, each pass is given the joined output and
// the joined normalizer: its probabilities are then those of the whole softmax, and the gradients of the passes add up.
#include <torch/library.h>
#include <torch/torch.h>

namespace {

using at::Tensor;

// Tokens are laid out as [prompts][answers, in the order of their prompts][other sequences].
struct Plan {
  Tensor starts;        // of every sequence, and the end, int32
  Tensor answerStarts;  // of the answers of each prompt, counted from the first answer
  Tensor promptStarts;
  int64_t longest, longestAnswers, longestPrompt, prompts, answers;
  double scale;

  Tensor answersOf(const Tensor& x, int64_t dim = 0) const { return x.narrow(dim, prompts, answers); }
  Tensor promptsOf(const Tensor& x) const { return x.narrow(0, 0, prompts); }
};

// FlashAttention lays the heads of single queries out in another way: it must not believe that there are only such.
int64_t severalRows(int64_t longest) { return std::max<int64_t>(2, longest); }

struct Pass {
  Tensor output, normalizer, state, unused;
};

Pass attendSelf(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v) {
  const int64_t longest = severalRows(plan.longest);
  auto [output, normalizer, state, unused, mask] = at::_flash_attention_forward(q, k, v, plan.starts, plan.starts, longest, longest, 0.0, true, false, plan.scale);
  TORCH_CHECK(normalizer.dim() == 2 && normalizer.size(0) == q.size(1) && normalizer.size(1) == q.size(0),
              "FlashAttention's normalizers are ", normalizer.sizes(), ", wanted [heads, tokens]");
  return {output, normalizer, state, unused};
}

Pass attendPrompts(const Plan& plan, const Tensor& q, const Tensor& k, const Tensor& v) {
  auto [output, normalizer, state, unused, mask] =
      at::_flash_attention_forward(plan.answersOf(q), plan.promptsOf(k), plan.promptsOf(v), plan.answerStarts, plan.promptStarts, severalRows(plan.longestAnswers),
                                   severalRows(plan.longestPrompt), 0.0, false, false, plan.scale);
  return {output, normalizer, state, unused};
}

// Overwrites the answers' part of the first pass with what both give together.
void join(const Plan& plan, const Pass& self, const Pass& prompts) {
  auto output = plan.answersOf(self.output), normalizer = plan.answersOf(self.normalizer, 1);
  auto share = at::sigmoid(prompts.normalizer - normalizer).t().unsqueeze(-1);
  output.copy_(output.to(at::kFloat).lerp_(prompts.output.to(at::kFloat), share));
  normalizer.copy_(at::logaddexp(normalizer, prompts.normalizer));
}

struct SharedPrefixFunction : torch::autograd::Function<SharedPrefixFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, const Plan& plan) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto self = attendSelf(plan, q, k, v), prompts = attendPrompts(plan, q, k, v);
    join(plan, self, prompts);
    context->save_for_backward({q, k, v, self.output, self.normalizer, self.state, self.unused, prompts.state, prompts.unused, plan.starts, plan.answerStarts,
                                plan.promptStarts});
    auto& kept = context->saved_data;
    kept["longest"] = plan.longest;
    kept["longestAnswers"] = plan.longestAnswers;
    kept["longestPrompt"] = plan.longestPrompt;
    kept["prompts"] = plan.prompts;
    kept["answers"] = plan.answers;
    kept["scale"] = plan.scale;
    return self.output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &output = saved[3], &normalizer = saved[4];
    auto& kept = context->saved_data;
    const Plan plan{saved[9],
                    saved[10],
                    saved[11],
                    kept["longest"].toInt(),
                    kept["longestAnswers"].toInt(),
                    kept["longestPrompt"].toInt(),
                    kept["prompts"].toInt(),
                    kept["answers"].toInt(),
                    kept["scale"].toDouble()};
    auto outer = gradients[0].contiguous();
    const int64_t longest = severalRows(plan.longest);
    auto [toQ, toK, toV] = at::_flash_attention_backward(outer, q, k, v, output, normalizer, plan.starts, plan.starts, longest, longest, 0.0, true, saved[5], saved[6],
                                                         plan.scale);
    auto [answersToQ, promptsToK, promptsToV] = at::_flash_attention_backward(
        plan.answersOf(outer), plan.answersOf(q), plan.promptsOf(k), plan.promptsOf(v), plan.answersOf(output), plan.answersOf(normalizer, 1).contiguous(),
        plan.answerStarts, plan.promptStarts, severalRows(plan.longestAnswers), severalRows(plan.longestPrompt), 0.0, false, saved[7], saved[8], plan.scale);
    plan.answersOf(toQ).add_(answersToQ);
    plan.promptsOf(toK).add_(promptsToK);
    plan.promptsOf(toV).add_(promptsToV);
    return {toQ, toK, toV, Tensor()};
  }
};

Plan checkedPlan(const Tensor& q, const Tensor& starts, const Tensor& answerStarts, const Tensor& promptStarts, at::IntArrayRef longest, int64_t prompts, int64_t answers,
                 double scale) {
  TORCH_CHECK(longest.size() == 3, "longest must be that of all sequences, of the answers of one prompt, and of the prompts");
  TORCH_CHECK(prompts > 0 && answers > 0 && prompts + answers <= q.size(0), prompts, " tokens of prompts and ", answers, " of answers do not fit ", q.size(0));
  TORCH_CHECK(answerStarts.numel() == promptStarts.numel(), "answers of ", answerStarts.numel() - 1, " prompts, but ", promptStarts.numel() - 1, " prompts");
  return {starts, answerStarts, promptStarts, longest[0], longest[1], longest[2], prompts, answers, scale};
}

// shared_prefix_attention(q [tokens, heads, dim], k, v [tokens, kvHeads, dim], starts, answer_starts, prompt_starts: int32 on the device,
//   longest: [sequence, answers of a prompt together, prompt], prompts, answers: their tokens, scale) -> [tokens, heads, dim]
Tensor sharedPrefixAttention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& starts, const Tensor& answerStarts, const Tensor& promptStarts,
                             at::IntArrayRef longest, int64_t prompts, int64_t answers, double scale) {
  auto plan = checkedPlan(q, starts, answerStarts, promptStarts, longest, prompts, answers, scale);
  auto self = attendSelf(plan, q, k, v);
  join(plan, self, attendPrompts(plan, q, k, v));
  return self.output;
}

Tensor sharedPrefixAttentionAutograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& starts, const Tensor& answerStarts, const Tensor& promptStarts,
                                     at::IntArrayRef longest, int64_t prompts, int64_t answers, double scale) {
  return SharedPrefixFunction::apply(q, k, v, checkedPlan(q, starts, answerStarts, promptStarts, longest, prompts, answers, scale));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def(
      "shared_prefix_attention(Tensor q, Tensor k, Tensor v, Tensor starts, Tensor answer_starts, Tensor prompt_starts, int[] longest, int prompts, int answers, "
      "float scale) -> Tensor");
}

// FlashAttention is libtorch's: nothing here needs a CUDA compiler, and without CUDA nothing calls it.
TORCH_LIBRARY_IMPL(verlet, CUDA, library) { library.impl("shared_prefix_attention", sharedPrefixAttention); }

TORCH_LIBRARY_IMPL(verlet, AutogradCUDA, library) { library.impl("shared_prefix_attention", sharedPrefixAttentionAutograd); }
