// RMS norm with a gradient written out, on the CPU: one pass over memory each way, where libtorch composes it from six.
// Other devices have a fused one in libtorch.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "vector-math.h"

namespace {

// Rows that sum their part of the weight's gradient together; fixed, so that the result does not depend on the threads.
constexpr int64_t rowsPerPart = 128;

VERLET_CLONES float normRow(const float* x, const float* weight, int64_t n, float eps, float* y) {
  const float scale = 1.0f / __builtin_sqrtf(laneDot(x, x, n) / n + eps);
  for (int64_t k = 0; k < n; k++) y[k] = x[k] * scale * weight[k];
  return scale;
}

VERLET_CLONES void normRowBackward(const float* gradient, const float* x, const float* weight, int64_t n, float scale, float* toX, float* toWeight) {
  for (int64_t k = 0; k < n; k++) toX[k] = gradient[k] * weight[k];
  const float mean = laneDot(toX, x, n) * scale * scale * scale / n;
  for (int64_t k = 0; k < n; k++) {
    toWeight[k] += gradient[k] * x[k] * scale;
    toX[k] = toX[k] * scale - x[k] * mean;
  }
}

bool isPlain(const at::Tensor& x, const at::Tensor& weight) { return x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && weight.dim() == 1; }

std::tuple<at::Tensor, at::Tensor> forwardRows(const at::Tensor& x, const at::Tensor& weight, double eps) {
  TORCH_CHECK(x.size(-1) == weight.size(0), "rms_norm: x has ", x.size(-1), " features, the weight ", weight.size(0));
  auto source = x.contiguous(), w = weight.contiguous();
  const int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n;
  auto result = at::empty_like(source), scales = at::empty({rows}, x.options());
  const float *in = source.const_data_ptr<float>(), *by = w.const_data_ptr<float>();
  float *out = result.mutable_data_ptr<float>(), *kept = scales.mutable_data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) kept[r] = normRow(in + r * n, by, n, static_cast<float>(eps), out + r * n);
  });
  return {result, scales};
}

std::tuple<at::Tensor, at::Tensor> backwardRows(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scales) {
  auto outer = gradient.contiguous(), source = x.contiguous(), w = weight.contiguous();
  const int64_t n = x.size(-1), rows = scales.size(0), parts = (rows + rowsPerPart - 1) / rowsPerPart;
  auto toX = at::empty_like(source), toWeight = at::zeros({parts, n}, x.options());
  const float *in = source.const_data_ptr<float>(), *by = w.const_data_ptr<float>(), *from = outer.const_data_ptr<float>(), *kept = scales.const_data_ptr<float>();
  float *out = toX.mutable_data_ptr<float>(), *sums = toWeight.mutable_data_ptr<float>();
  at::parallel_for(0, parts, rowsPerThread(rowsPerPart * n), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++)
      for (int64_t r = part * rowsPerPart; r < std::min(rows, (part + 1) * rowsPerPart); r++)
        normRowBackward(from + r * n, in + r * n, by, n, kept[r], out + r * n, sums + part * n);
  });
  return {toX, toWeight.sum(0)};
}

// rms_norm(x [..., features], weight [features], eps) -> x / sqrt(mean(x^2) + eps) * weight
at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return isPlain(x, weight) ? std::get<0>(forwardRows(x, weight, eps)) : at::rms_norm(x, weight.sizes(), weight, eps);
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double eps) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [result, scales] = forwardRows(x, weight, eps);
    context->save_for_backward({x, weight, scales});
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    auto [toX, toWeight] = backwardRows(gradients[0], saved[0], saved[1], saved[2]);
    return {toX, toWeight, at::Tensor()};
  }
};

at::Tensor rmsNormAutograd(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return isPlain(x, weight) ? RmsNormFunction::apply(x, weight, eps) : at::rms_norm(x, weight.sizes(), weight, eps);
}

at::Tensor rmsNormElsewhere(const at::Tensor& x, const at::Tensor& weight, double eps) { return at::rms_norm(x, weight.sizes(), weight, eps); }

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) { library.def("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor"); }

TORCH_LIBRARY_IMPL(verlet, CPU, library) { library.impl("rms_norm", rmsNorm); }

TORCH_LIBRARY_IMPL(verlet, AutogradCPU, library) { library.impl("rms_norm", rmsNormAutograd); }

// What libtorch composes or fuses carries its own gradient.
TORCH_LIBRARY_IMPL(verlet, CompositeImplicitAutograd, library) { library.impl("rms_norm", rmsNormElsewhere); }
