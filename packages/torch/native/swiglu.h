// SwiGLU in one pass over memory each way, float32 on the CPU.
#pragma once
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "vector-math.h"

namespace swiglu {

VERLET_CLONES static void forwardRow(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t k = 0; k < n; k++) out[k] = gate[k] / (1.0f + fastExp(-gate[k])) * up[k];
}

VERLET_CLONES static void backwardRow(const float* gradient, const float* gate, const float* up, int64_t n, float* toGate, float* toUp) {
  for (int64_t k = 0; k < n; k++) {
    const float s = 1.0f / (1.0f + fastExp(-gate[k])), swish = gate[k] * s;
    toUp[k] = gradient[k] * swish;
    toGate[k] = gradient[k] * up[k] * (s + swish * (1.0f - s));
  }
}

// Both at once, where both inputs are spent: the gradient becomes the activation, gate and up become their gradients.
VERLET_CLONES static void exchangeRow(float* gradient, float* gate, float* up, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    const float s = 1.0f / (1.0f + fastExp(-gate[k])), swish = gate[k] * s, outer = gradient[k], value = up[k];
    gradient[k] = swish * value;
    up[k] = outer * swish;
    gate[k] = outer * value * (s + swish * (1.0f - s));
  }
}

inline at::Tensor forward(const at::Tensor& x) {
  auto source = x.contiguous();
  const int64_t n = x.size(-1) / 2, rows = n == 0 ? 0 : x.numel() / (2 * n);
  auto sizes = x.sizes().vec();
  sizes.back() = n;
  auto result = at::empty(sizes, x.options());
  const float* in = source.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(2 * n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) forwardRow(in + 2 * r * n, in + (2 * r + 1) * n, n, out + r * n);
  });
  return result;
}

inline at::Tensor backward(const at::Tensor& gradient, const at::Tensor& x) {
  auto source = x.contiguous(), outer = gradient.contiguous();
  const int64_t n = x.size(-1) / 2, rows = n == 0 ? 0 : x.numel() / (2 * n);
  auto result = at::empty_like(source);
  const float *in = source.const_data_ptr<float>(), *from = outer.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(2 * n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) backwardRow(from + r * n, in + 2 * r * n, in + (2 * r + 1) * n, n, out + 2 * r * n, out + (2 * r + 1) * n);
  });
  return result;
}

inline void exchange(const at::Tensor& gradient, const at::Tensor& x) {
  const int64_t n = x.size(-1) / 2, rows = n == 0 ? 0 : x.numel() / (2 * n);
  float *outer = gradient.mutable_data_ptr<float>(), *in = x.mutable_data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(2 * n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) exchangeRow(outer + r * n, in + 2 * r * n, in + (2 * r + 1) * n, n);
  });
}

}  // namespace swiglu
