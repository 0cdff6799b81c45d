// A decoder as its native passes on the CPU see it: shape, weights laid out for products, the small steps between them, and the
// record of a token's activations from which a pass is walked back.
#pragma once
#include <ATen/ATen.h>

#include <cstring>
#include <vector>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "product.h"
#include "vector-math.h"

namespace decoder {

struct Layer {
  // Norms and bias as they are, matrices in panels; null where the model has none.
  const float *inputNorm, *qkv, *qkvBias, *qNorm, *kNorm, *output, *postNorm, *gateUp, *down;
  int64_t window;
};

struct Shape {
  int64_t hidden, heads, kvHeads, headDim, wide;
  float eps;
  int64_t headWidth() const { return heads * headDim; }
  int64_t qkvWidth() const { return (heads + 2 * kvHeads) * headDim; }
  // Queries and keys, which are turned and may be normed.
  int64_t turnedHeads() const { return heads + kvHeads; }
};

struct Model : Shape {
  int64_t positions;
  const float *cos, *sin;
  std::vector<Layer> layers;
  bool normsHeads() const { return !layers.empty() && layers[0].qNorm != nullptr; }
};

// Which products the matrices are laid out for: with the input, or with the gradient of the output.
enum class Direction { forward, backward };

// layers: nine tensors for each (input norm, qkv, bias of qkv or nothing, norm of q or nothing, norm of k or nothing, o, post norm,
// gate and up, down), the matrices in panels; cos, sin: [positions, dim]; windows: per layer, 0: none.
Model read(const char* name, const Shape& shape, at::TensorList layers, const at::Tensor& cos, const at::Tensor& sin, at::IntArrayRef windows, Direction direction);

const float* floats(const char* name, const at::Tensor& x, int64_t numel, const char* what);

// Where a token's activations lie in its record: layer after layer, and behind the last one what leaves it. Parts begin at whole
// vectors.
struct Record {
  // Of a layer: what enters it; queries, keys and values as they are attended with; queries and keys before their norm (where the
  // model has one); what attention gave and the logs of its normalizers; the residual after it; what SwiGLU is given.
  int64_t input, qkv, raw, attended, logs, sum, gateUp, layer;
  int64_t last, size;
  // From one layer to the next; none where a record is used for one layer after the other.
  int64_t step;
  explicit Record(const Model& m, bool keepsLayers = true) {
    int64_t end = 0;
    const auto next = [&end](int64_t width) {
      const int64_t begin = end;
      end += (width + 15) / 16 * 16;
      return begin;
    };
    input = next(m.hidden);
    qkv = next(m.qkvWidth());
    raw = next(m.normsHeads() ? m.turnedHeads() * m.headDim : 0);
    attended = next(m.headWidth());
    logs = next(m.heads);
    sum = next(m.hidden);
    gateUp = next(2 * m.wide);
    layer = end;
    step = keepsLayers ? layer : 0;
    last = keepsLayers ? layer * static_cast<int64_t>(m.layers.size()) : layer;
    size = last + (m.hidden + 15) / 16 * 16;
  }
};

// Records of many tokens in pieces of memory of one size, so that it can grow.
struct Tape {
  std::vector<float*> pieces;
  int64_t rowsPerPiece = 0;
  Record at;
  Tape(const char* name, at::TensorList tensors, const Model& m);
  int64_t rows() const { return rowsPerPiece * static_cast<int64_t>(pieces.size()); }
  float* row(int64_t r) const { return pieces[r / rowsPerPiece] + r % rowsPerPiece * at.size; }
};

void norm(const float* x, int64_t xRow, const float* weight, int64_t rows, int64_t n, float eps, float* y);

// y [rows, n] = SwiGLU of x [rows, 2n]
void gate(const float* x, int64_t xRow, int64_t rows, int64_t n, float* y);

// Norms (where there are weights) and turns the queries and keys of one token; `raw` takes them as they were before the norm.
void turn(const Model& m, const Layer& layer, int64_t position, float* qkv, float* raw);

// Copies to memory that is not read again soon, past the caches: what is in them stays. `to` begins at a whole vector.
inline void stream(const float* from, int64_t count, float* to) {
#ifdef __SSE2__
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) _mm_stream_ps(to + k, _mm_loadu_ps(from + k));
  for (; k < count; k++) to[k] = from[k];
#else
  std::memcpy(to, from, count * sizeof(float));
#endif
}

// Before others read what was streamed.
inline void streamed() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

inline void grow(std::vector<float>& room, int64_t size) {
  if (static_cast<int64_t>(room.size()) < size) room.resize(size);
}

}  // namespace decoder
