#include "decoder.h"

#include <cstring>

namespace decoder {

const float* floats(const char* name, const at::Tensor& x, int64_t numel, const char* what) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() == numel, name, ": ", what, " must be ", numel, " contiguous float32 values, it is ",
              x.scalar_type(), " ", x.sizes());
  return x.const_data_ptr<float>();
}

Model read(const char* name, const Shape& shape, at::TensorList layers, const at::Tensor& cos, const at::Tensor& sin, at::IntArrayRef windows, Direction direction) {
  constexpr int64_t tensorsPerLayer = 9;
  const auto depth = static_cast<int64_t>(windows.size());
  TORCH_CHECK(depth > 0 && static_cast<int64_t>(layers.size()) == depth * tensorsPerLayer, name, ": there must be a window and nine weights for each layer");
  // Widths that no product of theirs takes past 64 bits; which they are is known by the weights.
  constexpr int64_t most = int64_t{1} << 24;
  TORCH_CHECK(shape.heads <= most && shape.wide >= 0 && shape.wide <= most, name, ": there cannot be ", shape.heads, " heads or ", shape.wide, " inner values");
  TORCH_CHECK(shape.heads > 0 && shape.kvHeads > 0 && shape.heads % shape.kvHeads == 0 && shape.headDim > 0 && shape.headDim % 2 == 0, name, ": heads do not match");
  TORCH_CHECK(cos.dim() == 2, name, ": the rotary tables must be matrices");
  Model m{shape, cos.size(0)};
  m.cos = floats(name, cos, m.positions * m.headDim, "cos");
  m.sin = floats(name, sin, m.positions * m.headDim, "sin");
  const auto optional = [name](const at::Tensor& x, int64_t numel, const char* what) { return x.numel() == 0 ? nullptr : floats(name, x, numel, what); };
  const auto matrix = [name, direction](const at::Tensor& x, int64_t in, int64_t out, const char* what) {
    return floats(name, x, direction == Direction::forward ? product::packedSize(in, out) : product::packedSize(out, in), what);
  };
  for (int64_t k = 0; k < depth; k++) {
    const auto* w = layers.begin() + k * tensorsPerLayer;
    m.layers.push_back({floats(name, w[0], m.hidden, "a norm"), matrix(w[1], m.hidden, m.qkvWidth(), "qkv"), optional(w[2], m.qkvWidth(), "the bias of qkv"),
                        optional(w[3], m.headDim, "the norm of q"), optional(w[4], m.headDim, "the norm of k"), matrix(w[5], m.headWidth(), m.hidden, "o"),
                        floats(name, w[6], m.hidden, "a norm"), matrix(w[7], m.hidden, 2 * m.wide, "gate and up"), matrix(w[8], m.wide, m.hidden, "down"), windows[k]});
    TORCH_CHECK((m.layers[k].qNorm != nullptr) == m.normsHeads() && (m.layers[k].kNorm != nullptr) == m.normsHeads(), name, ": queries and keys are normed in all layers or in none");
  }
  return m;
}

Tape::Tape(const char* name, at::TensorList tensors, const Model& m) : at(m) {
  for (const auto& x : tensors) {
    TORCH_CHECK(x.scalar_type() == at::kFloat && x.is_contiguous() && x.dim() == 2 && x.size(1) == at.size && x.size(0) > 0 && (pieces.empty() || x.size(0) == rowsPerPiece), name,
                ": the tape must be pieces of one size, float32 [rows, ", at.size, "], one is ", x.scalar_type(), " ", x.sizes());
    // Rows are whole vectors long: where the first begins at one, all do.
    TORCH_CHECK(reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0, name, ": the tape must begin at a multiple of 16 bytes; a view into other memory may not");
    rowsPerPiece = x.size(0);
    pieces.push_back(x.mutable_data_ptr<float>());
  }
}

VERLET_CLONES void norm(const float* x, int64_t xRow, const float* weight, int64_t rows, int64_t n, float eps, float* y) {
  for (int64_t r = 0; r < rows; r++, x += xRow, y += n) {
    const float scale = 1.0f / __builtin_sqrtf(laneDot(x, x, n) / n + eps);
    for (int64_t k = 0; k < n; k++) y[k] = x[k] * scale * weight[k];
  }
}

VERLET_CLONES void gate(const float* x, int64_t xRow, int64_t rows, int64_t n, float* y) {
  for (int64_t r = 0; r < rows; r++, x += xRow, y += n)
    for (int64_t k = 0; k < n; k++) y[k] = x[k] / (1.0f + fastExp(-x[k])) * x[n + k];
}

VERLET_CLONES void turn(const Model& m, const Layer& layer, int64_t position, float* qkv, float* raw) {
  const int64_t dim = m.headDim, half = dim / 2;
  if (raw && layer.qNorm) std::memcpy(raw, qkv, m.turnedHeads() * dim * sizeof(float));
  const float *cos = m.cos + position * dim, *sin = m.sin + position * dim;
  for (int64_t h = 0; h < m.turnedHeads(); h++) {
    const float* weight = h < m.heads ? layer.qNorm : layer.kNorm;
    float* x = qkv + h * dim;
    if (weight) {
      const float factor = 1.0f / __builtin_sqrtf(laneDot(x, x, dim) / dim + m.eps);
      for (int64_t k = 0; k < dim; k++) x[k] = x[k] * factor * weight[k];
    }
    for (int64_t k = 0; k < half; k++) {
      const float a = x[k], b = x[k + half];
      x[k] = a * cos[k] - b * sin[k];
      x[k + half] = b * cos[k] + a * sin[k];
    }
  }
}

}  // namespace decoder
