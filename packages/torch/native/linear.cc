// y = x W' + b with our own products on the CPU, and its gradients.
#include <torch/library.h>
#include <torch/torch.h>

#include "product.h"

namespace {

// Our products are for float32 matrices that are worth laying out; the rest is libtorch's.
bool fits(const at::Tensor& x, const at::Tensor& weight) {
  return product::isFast() && x.scalar_type() == at::kFloat && weight.scalar_type() == at::kFloat && weight.dim() == 2 && x.dim() >= 1 &&
         x.size(-1) == weight.size(1) && weight.size(0) >= 16 && weight.size(1) >= 16 && x.numel() >= 8 * x.size(-1);
}

at::Tensor rowsOf(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).contiguous(); }

// The panels of `matrix` [inner, columns], which may be a transposed view.
at::Tensor packed(const at::Tensor& matrix) {
  const int64_t inner = matrix.size(0), columns = matrix.size(1);
  auto source = matrix.stride(0) == 1 || matrix.stride(1) == 1 ? matrix : matrix.contiguous();
  auto panels = at::empty({product::packedSize(inner, columns)}, matrix.options());
  product::pack(source.const_data_ptr<float>(), inner, columns, source.stride(0), source.stride(1), panels.mutable_data_ptr<float>());
  return panels;
}

// a [rows, inner] times b [inner, columns]
at::Tensor multiply(const at::Tensor& a, const at::Tensor& b, const float* bias) {
  auto panels = packed(b);
  const int64_t rows = a.size(0), inner = a.size(1), columns = b.size(1);
  auto y = at::empty({rows, columns}, a.options());
  product::runParallel({a.const_data_ptr<float>(), inner, panels.const_data_ptr<float>(), rows, inner, columns, y.mutable_data_ptr<float>(), columns, bias, 0});
  return y;
}

at::Tensor plainLinear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (!fits(x, weight) || (bias && bias->defined() && !(bias->scalar_type() == at::kFloat && bias->numel() == weight.size(0)))) return at::linear(x, weight, bias);
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const auto b = bias && bias->defined() ? bias->contiguous() : at::Tensor();
  return multiply(rowsOf(x), weight.t(), b.defined() ? b.const_data_ptr<float>() : nullptr).reshape(sizes);
}

// a [terms, rows]' times b [terms, columns]
at::Tensor turnedProduct(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(0) == b.size(0), "turned_product: two matrices of as many rows are wanted, not ", a.sizes(), " and ", b.sizes());
  const bool plain = product::isFast() && a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat && a.size(1) >= 16 && b.size(1) >= 16;
  if (!plain) return a.t().mm(b);
  auto left = a.contiguous(), right = b.contiguous();
  auto y = at::empty({a.size(1), b.size(1)}, a.options());
  product::outer(left.const_data_ptr<float>(), a.size(1), right.const_data_ptr<float>(), b.size(1), a.size(0), a.size(1), b.size(1), y.mutable_data_ptr<float>());
  return y;
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    at::AutoDispatchBelowADInplaceOrView guard;
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias && bias->defined();
    return plainLinear(x, weight, bias);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    auto outer = rowsOf(gradients[0]);
    at::Tensor toX, toWeight, toBias;
    if (context->needs_input_grad(0)) toX = multiply(outer, weight, nullptr).reshape(x.sizes());
    if (context->needs_input_grad(1)) toWeight = turnedProduct(outer, rowsOf(x));
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) toBias = outer.sum(0);
    return {toX, toWeight, toBias};
  }
};

at::Tensor linearAutograd(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  const bool plainBias = !bias || !bias->defined() || (bias->scalar_type() == at::kFloat && bias->numel() == weight.size(0));
  return fits(x, weight) && plainBias ? LinearFunction::apply(x, weight, bias) : at::linear(x, weight, bias);
}

at::Tensor linearElsewhere(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) { return at::linear(x, weight, bias); }

at::Tensor turnedElsewhere(const at::Tensor& a, const at::Tensor& b) { return a.t().mm(b); }

// pack_weight(weight [out, in]) -> its panels, for `decode_step`
at::Tensor packWeight(const at::Tensor& weight) {
  TORCH_CHECK(weight.dim() == 2 && weight.scalar_type() == at::kFloat, "pack_weight: the weight must be a float32 matrix");
  return packed(weight.t());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor");
  library.def("turned_product(Tensor a, Tensor b) -> Tensor");
  library.def("pack_weight(Tensor weight) -> Tensor");
  library.def("has_fast_products() -> bool", [] { return product::isFast(); });
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("linear", plainLinear);
  library.impl("turned_product", turnedProduct);
  library.impl("pack_weight", packWeight);
}

TORCH_LIBRARY_IMPL(verlet, AutogradCPU, library) { library.impl("linear", linearAutograd); }

TORCH_LIBRARY_IMPL(verlet, CompositeImplicitAutograd, library) {
  library.impl("linear", linearElsewhere);
  library.impl("turned_product", turnedElsewhere);
}
