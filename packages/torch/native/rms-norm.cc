// RMS norm, alone and behind a residual sum, with a gradient written out: one pass over memory each way, where libtorch composes
// it from six. CPU kernels and the gradient; CUDA kernels of the same operators are in cuda/.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "rms-norm.h"
#include "vector-math.h"

namespace {

// Rows that sum their part of the weight's gradient together; fixed, so that the result does not depend on the threads.
constexpr int64_t rowsPerPart = 128;

VERLET_CLONES void normRow(const float* x, const float* weight, int64_t n, float eps, float* y) {
  const float scale = 1.0f / __builtin_sqrtf(laneDot(x, x, n) / n + eps);
  for (int64_t k = 0; k < n; k++) y[k] = x[k] * scale * weight[k];
}

VERLET_CLONES void normRowBackward(const float* gradient, const float* x, const float* weight, int64_t n, float eps, float* toX, float* toWeight) {
  const float scale = 1.0f / __builtin_sqrtf(laneDot(x, x, n) / n + eps);
  for (int64_t k = 0; k < n; k++) toX[k] = gradient[k] * weight[k];
  const float mean = laneDot(toX, x, n) * scale * scale * scale / n;
  for (int64_t k = 0; k < n; k++) {
    toWeight[k] += gradient[k] * x[k] * scale;
    toX[k] = toX[k] * scale - x[k] * mean;
  }
}

VERLET_CLONES void addRow(const float* x, int64_t n, float* y) {
  for (int64_t k = 0; k < n; k++) y[k] += x[k];
}

bool isPlain(const at::Tensor& x, const at::Tensor& weight) { return x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && weight.dim() == 1; }

// rms_norm(x [..., features], weight [features], eps) -> x / sqrt(mean(x^2) + eps) * weight
at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (!isPlain(x, weight)) return at::rms_norm(x, weight.sizes(), weight, eps);
  TORCH_CHECK(x.size(-1) == weight.size(0), "rms_norm: x has ", x.size(-1), " features, the weight ", weight.size(0));
  auto source = x.contiguous(), w = weight.contiguous();
  const int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n;
  auto result = at::empty_like(source);
  const float *in = source.const_data_ptr<float>(), *by = w.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) normRow(in + r * n, by, n, static_cast<float>(eps), out + r * n);
  });
  return result;
}

// add_rms_norm(x, residual, weight, eps) -> (norm of the sum, the sum)
std::tuple<at::Tensor, at::Tensor> addRmsNorm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  auto sum = x.add(residual);
  return {rmsNorm(sum, weight, eps), sum};
}

// rms_norm_backward(gradient, x, weight, eps, residual or none) -> (gradient of x plus `residual`, gradient of the weight in float32).
// `residual` is the gradient that goes around the norm. What the norm divided by is computed again from x.
std::tuple<at::Tensor, at::Tensor> rmsNormBackward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight, double eps,
                                                   const std::optional<at::Tensor>& residual) {
  if (!isPlain(x, weight) || gradient.scalar_type() != at::kFloat) return composedRmsNormBackward(gradient, x, weight, eps, residual);
  auto outer = gradient.contiguous(), source = x.contiguous(), w = weight.contiguous();
  at::Tensor around = residual ? residual->contiguous() : at::Tensor();
  const int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n, parts = (rows + rowsPerPart - 1) / rowsPerPart;
  auto toX = at::empty_like(source), toWeight = at::zeros({parts, n}, x.options());
  const float *in = source.const_data_ptr<float>(), *by = w.const_data_ptr<float>(), *from = outer.const_data_ptr<float>();
  const float* added = residual ? around.const_data_ptr<float>() : nullptr;
  float *out = toX.mutable_data_ptr<float>(), *sums = toWeight.mutable_data_ptr<float>();
  at::parallel_for(0, parts, rowsPerThread(rowsPerPart * n), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++)
      for (int64_t r = part * rowsPerPart; r < std::min(rows, (part + 1) * rowsPerPart); r++) {
        normRowBackward(from + r * n, in + r * n, by, n, static_cast<float>(eps), out + r * n, sums + part * n);
        if (added) addRow(added + r * n, n, out + r * n);
      }
  });
  return {toX, toWeight.sum(0)};
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("verlet::rms_norm", "").typed<at::Tensor(const at::Tensor&, const at::Tensor&, double)>();
    context->save_for_backward({x, weight});
    context->saved_data["eps"] = eps;
    return op.call(x, weight, eps);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    static auto op = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("verlet::rms_norm_backward", "")
                         .typed<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&, double, const std::optional<at::Tensor>&)>();
    auto saved = context->get_saved_variables();
    auto [toX, toWeight] = op.call(gradients[0], saved[0], saved[1], context->saved_data["eps"].toDouble(), std::nullopt);
    return {toX, toWeight.to(saved[1].scalar_type()), at::Tensor()};
  }
};

at::Tensor rmsNormAutograd(const at::Tensor& x, const at::Tensor& weight, double eps) { return RmsNormFunction::apply(x, weight, eps); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor");
  library.def("rms_norm_backward(Tensor gradient, Tensor x, Tensor weight, float eps, Tensor? residual) -> (Tensor to_x, Tensor to_weight)");
  library.def("add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor normed, Tensor sum)");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("rms_norm", rmsNorm);
  library.impl("rms_norm_backward", rmsNormBackward);
  library.impl("add_rms_norm", addRmsNorm);
}

TORCH_LIBRARY_IMPL(verlet, Autograd, library) { library.impl("rms_norm", rmsNormAutograd); }
