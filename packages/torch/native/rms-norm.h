// The gradient of the RMS norm from libtorch's operators, for dtypes and widths that no kernel of ours takes.
#pragma once
#include <ATen/ATen.h>

#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

inline std::tuple<at::Tensor, at::Tensor> composedRmsNormBackward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight, double eps,
                                                                  const std::optional<at::Tensor>& residual) {
  auto outer = gradient.to(at::kFloat), source = x.to(at::kFloat);
  auto scale = source.square().mean(-1, true).add_(eps).rsqrt_(), normed = source * scale;
  auto weighted = outer * weight.to(at::kFloat);
  auto toX = (weighted - normed * (weighted * normed).mean(-1, true)) * scale;
  if (residual) toX += *residual;
  return {toX.to(x.scalar_type()), (outer * normed).reshape({-1, weight.size(0)}).sum(0)};
}
