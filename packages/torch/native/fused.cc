// Element-wise chains that libtorch would run as five or six passes over memory, as one: rotary embedding and SwiGLU.
// CPU kernels and the gradients; CUDA kernels of the same operators are in cuda/.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>

#include "swiglu.h"

namespace {

VERLET_CLONES void rotateRow(const float* x, const float* cos, const float* sin, float sign, int64_t half, float* y) {
  for (int64_t k = 0; k < half; k++) {
    const float a = x[k], b = x[k + half], c = cos[k], s = sign * sin[k];
    y[k] = a * c - b * s;
    y[k + half] = b * c + a * s;
  }
}

// rope_partial(x [tokens, heads, dim], cos, sin [positions, dim], position [tokens] int64, rotated, inverse): halves of the first
// heads rotated against each other, the other heads copied (the values, which stand behind queries and keys in one projection).
// The tables repeat their first half, as Hugging Face writes them, so both halves share one cosine. `inverse` turns back: that is
// the gradient.
at::Tensor ropePartial(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, int64_t rotated, bool inverse) {
  TORCH_CHECK(x.dim() == 3 && cos.dim() == 2 && x.size(2) == cos.size(1) && x.size(2) % 2 == 0, "x must be [tokens, heads, dim], the tables [positions, dim]");
  TORCH_CHECK(position.scalar_type() == at::kLong && position.numel() == x.size(0), "position must be int64, one per token");
  TORCH_CHECK(rotated >= 0 && rotated <= x.size(1), "cannot rotate ", rotated, " of ", x.size(1), " heads");
  if (x.scalar_type() != at::kFloat || cos.scalar_type() != at::kFloat) {
    auto c = cos.index_select(0, position).to(at::kFloat).unsqueeze(1), s = sin.index_select(0, position).to(at::kFloat).unsqueeze(1);
    auto part = x.narrow(1, 0, rotated);
    auto halves = part.to(at::kFloat).chunk(2, -1);
    if (inverse) s = s.neg();
    auto turned = (part * c + at::cat({halves[1].neg(), halves[0]}, -1) * s).to(x.scalar_type());
    return rotated == x.size(1) ? turned : at::cat({turned, x.narrow(1, rotated, x.size(1) - rotated)}, 1);
  }
  auto source = x.stride(2) == 1 ? x : x.contiguous();
  auto tokens = x.size(0), heads = x.size(1), dim = x.size(2), half = dim / 2;
  auto result = at::empty({tokens, heads, dim}, x.options());
  auto places = position.contiguous(), c = cos.contiguous(), s = sin.contiguous();
  const int64_t* at = places.const_data_ptr<int64_t>();
  for (int64_t t = 0; t < tokens; t++) TORCH_CHECK(at[t] >= 0 && at[t] < c.size(0), "position ", at[t], " is outside the rotary table of ", c.size(0));
  const float *in = source.const_data_ptr<float>(), *cosines = c.const_data_ptr<float>(), *sines = s.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  const int64_t tokenStride = source.stride(0), headStride = source.stride(1);
  const float sign = inverse ? -1.0f : 1.0f;
  at::parallel_for(0, tokens, 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const float* from = in + t * tokenStride;
      float* to = out + t * heads * dim;
      for (int64_t h = 0; h < rotated; h++) rotateRow(from + h * headStride, cosines + at[t] * dim, sines + at[t] * dim, sign, half, to + h * dim);
      for (int64_t h = rotated; h < heads; h++) std::memcpy(to + h * dim, from + h * headStride, dim * sizeof(float));
    }
  });
  return result;
}

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, bool inverse) {
  return ropePartial(x, cos, sin, position, x.size(1), inverse);
}

// rope_backward(gradients of q [tokens, heads, dim], k and v [tokens, kvHeads, dim], ...) -> gradient of the projection they were cut
// from, [tokens, heads + 2 kvHeads, dim]: queries and keys turned back, values as they are.
at::Tensor ropeBackward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position) {
  return at::cat({rope(q, cos, sin, position, true), rope(k, cos, sin, position, true), v}, 1);
}

// rope_cache_(qkv [tokens, heads + 2 kvHeads, dim], ..., keys, values [blocks, size, kvHeads, dim], slot [tokens] int32, heads,
//   norm weights or none): norms and rotates queries and keys in place, stores keys and values where `slot` is not negative.
void ropeCache(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, const at::Tensor& keys, const at::Tensor& values,
               const at::Tensor& slot, int64_t heads, const std::optional<at::Tensor>& qWeight, const std::optional<at::Tensor>& kWeight, double eps) {
  auto kvHeads = keys.size(-2), dim = qkv.size(2);
  TORCH_CHECK(qkv.size(1) == heads + 2 * kvHeads, "heads do not match the cache");
  auto q = qkv.narrow(1, 0, heads), k = qkv.narrow(1, heads, kvHeads), v = qkv.narrow(1, heads + kvHeads, kvHeads);
  auto places = position.to(at::kLong);
  auto norm = [&](const at::Tensor& x, const std::optional<at::Tensor>& weight) { return weight ? at::rms_norm(x, {dim}, *weight, eps) : x; };
  q.copy_(rope(norm(q, qWeight), cos, sin, places, false));
  k.copy_(rope(norm(k, kWeight), cos, sin, places, false));
  auto stored = slot.ge(0).nonzero().squeeze(1), to = slot.index_select(0, stored).to(at::kLong);
  keys.flatten(0, 1).index_copy_(0, to, k.index_select(0, stored).to(keys.scalar_type()));
  values.flatten(0, 1).index_copy_(0, to, v.index_select(0, stored).to(values.scalar_type()));
}

// swiglu(x [rows, 2 * width]) -> silu(x[:, :width]) * x[:, width:]
at::Tensor swigluForward(const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat) return swiglu::forward(x);
  auto halves = x.chunk(2, -1);
  return at::silu(halves[0]).mul_(halves[1]);
}

// Gradient of swiglu with respect to x, in one tensor.
at::Tensor swigluBackward(const at::Tensor& gradient, const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat && gradient.scalar_type() == at::kFloat) return swiglu::backward(gradient, x);
  auto halves = x.chunk(2, -1);
  auto result = at::empty(x.sizes(), x.options());
  auto out = result.chunk(2, -1);
  out[1].copy_(at::silu(halves[0])).mul_(gradient);
  out[0].copy_(at::silu_backward(gradient * halves[1], halves[0]));
  return result;
}

// The same where both inputs are spent: `x` becomes its gradient and `gradient` what swiglu(x) was, which the next product wants.
void swigluBackwardInPlace(const at::Tensor& gradient, const at::Tensor& x) {
  TORCH_CHECK(gradient.numel() * 2 == x.numel() && gradient.scalar_type() == x.scalar_type(), "the gradient must be half as wide as x, in its dtype");
  if (x.scalar_type() == at::kFloat && x.is_contiguous() && gradient.is_contiguous()) return swiglu::exchange(gradient, x);
  auto activated = swigluForward(x), toX = swigluBackward(gradient, x);
  gradient.copy_(activated);
  x.copy_(toX);
}

at::Tensor callRope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, bool inverse) {
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("verlet::rope", "")
                       .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool)>();
  return op.call(x, cos, sin, position, inverse);
}

struct RopeFunction : torch::autograd::Function<RopeFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const at::Tensor& position, bool inverse) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({cos, sin, position});
    context->saved_data["inverse"] = inverse;
    return callRope(x, cos, sin, position, inverse);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    auto result = callRope(gradients[0], saved[0], saved[1], saved[2], !context->saved_data["inverse"].toBool());
    return {result, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor ropeAutograd(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, bool inverse) {
  return RopeFunction::apply(x, cos, sin, position, inverse);
}

at::Tensor callRopePartial(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, int64_t rotated, bool inverse) {
  static auto op = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("verlet::rope_partial", "")
                       .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t, bool)>();
  return op.call(x, cos, sin, position, rotated, inverse);
}

struct RopePartialFunction : torch::autograd::Function<RopePartialFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const at::Tensor& position, int64_t rotated, bool inverse) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({cos, sin, position});
    context->saved_data["rotated"] = rotated;
    context->saved_data["inverse"] = inverse;
    return callRopePartial(x, cos, sin, position, rotated, inverse);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    auto result = callRopePartial(gradients[0], saved[0], saved[1], saved[2], context->saved_data["rotated"].toInt(), !context->saved_data["inverse"].toBool());
    return {result, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor ropePartialAutograd(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& position, int64_t rotated, bool inverse) {
  return RopePartialFunction::apply(x, cos, sin, position, rotated, inverse);
}

at::Tensor callSwiglu(const at::Tensor& x) {
  static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("verlet::swiglu", "").typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

at::Tensor callSwigluBackward(const at::Tensor& gradient, const at::Tensor& x) {
  static auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("verlet::swiglu_backward", "").typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(gradient, x);
}

struct SwigluFunction : torch::autograd::Function<SwigluFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({x});
    return callSwiglu(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    return {callSwigluBackward(gradients[0], context->get_saved_variables()[0])};
  }
};

at::Tensor swigluAutograd(const at::Tensor& x) { return SwigluFunction::apply(x); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("rope(Tensor x, Tensor cos, Tensor sin, Tensor position, bool inverse) -> Tensor");
  library.def("rope_partial(Tensor x, Tensor cos, Tensor sin, Tensor position, int rotated, bool inverse) -> Tensor");
  library.def("rope_backward(Tensor q, Tensor k, Tensor v, Tensor cos, Tensor sin, Tensor position) -> Tensor");
  library.def(
      "rope_cache_(Tensor(a!) qkv, Tensor cos, Tensor sin, Tensor position, Tensor(b!) keys, Tensor(c!) values, Tensor slot, int heads, "
      "Tensor? q_weight, Tensor? k_weight, float eps) -> ()");
  library.def("swiglu(Tensor x) -> Tensor");
  library.def("swiglu_backward(Tensor gradient, Tensor x) -> Tensor");
  library.def("swiglu_backward_(Tensor(a!) gradient, Tensor(b!) x) -> ()");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("rope", rope);
  library.impl("rope_partial", ropePartial);
  library.impl("rope_backward", ropeBackward);
  library.impl("rope_cache_", ropeCache);
  library.impl("swiglu", swigluForward);
  library.impl("swiglu_backward", swigluBackward);
  library.impl("swiglu_backward_", swigluBackwardInPlace);
}

TORCH_LIBRARY_IMPL(verlet, Autograd, library) {
  library.impl("rope", ropeAutograd);
  library.impl("rope_partial", ropePartialAutograd);
  library.impl("swiglu", swigluAutograd);
}
