// New tokens of many sequences through a whole decoder on the CPU, in one call. A thread takes some of the sequences and carries
// their tokens through all layers by itself: nothing waits for anybody, and what passes between two products stays in its cache.
// Run operator by operator, a small model spends most of a step between its products.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "paged-heads.h"
#include "product.h"

namespace {

struct Layer {
  const float *inputNorm, *qkv, *qkvBias, *qNorm, *kNorm, *output, *postNorm, *gateUp, *down;
  float *keys, *values;
  int64_t window;
};

struct Model {
  int64_t hidden, heads, kvHeads, headDim, wide, vocabulary;
  float eps;
  const float *cos, *sin, *embedding, *finalNorm, *head;
  std::vector<Layer> layers;
};

struct Batch {
  const int64_t *ids, *positions, *slots;
  const int32_t *sequences, *table;
  int64_t tableWidth, blockSize;
  std::vector<int64_t> wanted;  // rows whose logits are asked for, in order
  float* logits;
};

VERLET_CLONES void norm(const float* x, const float* weight, int64_t rows, int64_t n, float eps, float* y) {
  for (int64_t r = 0; r < rows; r++, x += n, y += n) {
    const float scale = 1.0f / __builtin_sqrtf(laneDot(x, x, n) / n + eps);
    for (int64_t k = 0; k < n; k++) y[k] = x[k] * scale * weight[k];
  }
}

VERLET_CLONES void gate(const float* x, int64_t rows, int64_t n, float* y) {
  for (int64_t r = 0; r < rows; r++, x += 2 * n, y += n)
    for (int64_t k = 0; k < n; k++) y[k] = x[k] / (1.0f + fastExp(-x[k])) * x[n + k];
}

VERLET_INLINE void rotate(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t k = 0; k < half; k++) {
    const float a = x[k], b = x[k + half];
    x[k] = a * cos[k] - b * sin[k];
    x[k + half] = b * cos[k] + a * sin[k];
  }
}

// Norms and turns queries and keys, stores keys and values, attends.
VERLET_CLONES void attend(const Model& m, const Layer& layer, const Batch& batch, int64_t first, int64_t rows, float* qkv, float* scores, float* out) {
  const int64_t dim = m.headDim, width = (m.heads + 2 * m.kvHeads) * dim;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  for (int64_t r = 0; r < rows; r++) {
    float* row = qkv + r * width;
    const int64_t position = batch.positions[first + r], last = position + 1;
    for (int64_t h = 0; h < m.heads + m.kvHeads; h++) {
      const float* weight = h < m.heads ? layer.qNorm : layer.kNorm;
      float* x = row + h * dim;
      if (weight) {
        const float factor = 1.0f / __builtin_sqrtf(laneDot(x, x, dim) / dim + m.eps);
        for (int64_t k = 0; k < dim; k++) x[k] = x[k] * factor * weight[k];
      }
      rotate(x, m.cos + position * dim, m.sin + position * dim, dim / 2);
    }
    const float *key = row + m.heads * dim, *value = key + m.kvHeads * dim;
    paged::storeToken(key, value, batch.slots[first + r], batch.blockSize, m.kvHeads, dim, layer.keys, layer.values);
    const paged::Cache cache{layer.keys, layer.values, batch.table + batch.sequences[first + r] * batch.tableWidth, batch.blockSize, m.kvHeads, dim};
    const int64_t from = layer.window > 0 && last > layer.window ? last - layer.window : 0;
    paged::attend(row, cache, m.heads, from, last, scale, scores, out + r * m.heads * dim);
  }
}

// Rows that a thread carries at once: enough to be worth fetching the weights for, few enough to stay in its cache.
constexpr int64_t mostRows = 64;

struct Buffers {
  std::vector<float> x, normed, qkv, attended, wide, gated, scores;
  void fit(const Model& m, const Batch& batch, int64_t rows) {
    const auto grow = [](std::vector<float>& room, int64_t size) { room.resize(std::max<size_t>(room.size(), size)); };
    grow(x, rows * m.hidden);
    grow(normed, rows * m.hidden);
    grow(qkv, rows * (m.heads + 2 * m.kvHeads) * m.headDim);
    grow(attended, rows * m.heads * m.headDim);
    grow(wide, rows * 2 * m.wide);
    grow(gated, rows * m.wide);
    grow(scores, m.heads * batch.tableWidth * batch.blockSize);
  }
};

void carry(const Model& m, const Batch& batch, int64_t first, int64_t rows, Buffers& b) {
  const int64_t qkvWidth = (m.heads + 2 * m.kvHeads) * m.headDim, headWidth = m.heads * m.headDim;
  for (int64_t r = 0; r < rows; r++) std::memcpy(b.x.data() + r * m.hidden, m.embedding + batch.ids[first + r] * m.hidden, m.hidden * sizeof(float));
  auto times = [rows](const std::vector<float>& a, const float* panels, int64_t inner, int64_t columns, float* y, const float* start, int64_t startRow) {
    product::run({a.data(), inner, panels, rows, inner, columns, y, columns, start, startRow});
  };
  for (const auto& layer : m.layers) {
    norm(b.x.data(), layer.inputNorm, rows, m.hidden, m.eps, b.normed.data());
    times(b.normed, layer.qkv, m.hidden, qkvWidth, b.qkv.data(), layer.qkvBias, 0);
    attend(m, layer, batch, first, rows, b.qkv.data(), b.scores.data(), b.attended.data());
    // The sums start from the residual, so they end as the residual with the layer's part added.
    times(b.attended, layer.output, headWidth, m.hidden, b.x.data(), b.x.data(), m.hidden);
    norm(b.x.data(), layer.postNorm, rows, m.hidden, m.eps, b.normed.data());
    times(b.normed, layer.gateUp, m.hidden, 2 * m.wide, b.wide.data(), nullptr, 0);
    gate(b.wide.data(), rows, m.wide, b.gated.data());
    times(b.gated, layer.down, m.wide, m.hidden, b.x.data(), b.x.data(), m.hidden);
  }
  norm(b.x.data(), m.finalNorm, rows, m.hidden, m.eps, b.normed.data());
  const auto from = std::lower_bound(batch.wanted.begin(), batch.wanted.end(), first), to = std::lower_bound(from, batch.wanted.end(), first + rows);
  const int64_t count = to - from;
  for (int64_t k = 0; k < count; k++)
    std::memmove(b.normed.data() + k * m.hidden, b.normed.data() + (from[k] - first) * m.hidden, m.hidden * sizeof(float));
  float* logits = batch.logits + (from - batch.wanted.begin()) * m.vocabulary;
  product::run({b.normed.data(), m.hidden, m.head, count, m.hidden, m.vocabulary, logits, m.vocabulary});
}

const float* floats(const at::Tensor& x, int64_t numel, const char* name) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() == numel, "decode_step: ", name, " must be ", numel, " contiguous float32 values, it is ",
              x.scalar_type(), " ", x.sizes());
  return x.const_data_ptr<float>();
}

// None where there are no values.
const float* optional(const at::Tensor& x, int64_t numel, const char* name) { return x.numel() == 0 ? nullptr : floats(x, numel, name); }

constexpr int64_t tensorsPerLayer = 9;

// decode_step(ids, position, slot [rows] int64, sequence [rows] int32: row of the table; tokens of a sequence stand together and in
//   order, table [sequences, blocks] int32, wanted [n] int64: rows whose logits are returned, ascending, keys (per layer, [blocks, kvHeads, dim, size]), values
//   (per layer, [blocks, size, kvHeads, dim]), embedding [vocabulary, hidden], head (packed), final norm, layers: nine of each
//   (input norm, qkv packed, qkv bias or nothing, q norm or nothing, k norm or nothing, o packed, post norm, gate and up packed,
//   down packed), cos, sin [positions, dim], heads, wide, windows (per layer, 0: none), eps) -> logits [n, vocabulary]
at::Tensor decodeStep(const at::Tensor& ids, const at::Tensor& position, const at::Tensor& slot, const at::Tensor& sequence, const at::Tensor& table, const at::Tensor& wanted,
                      at::TensorList keys, at::TensorList values,
                      const at::Tensor& embedding, const at::Tensor& head, const at::Tensor& finalNorm, at::TensorList layers, const at::Tensor& cos,
                      const at::Tensor& sin, int64_t heads, int64_t wide, at::IntArrayRef windows, double eps) {
  const auto depth = static_cast<int64_t>(keys.size()), rows = ids.numel();
  TORCH_CHECK(depth > 0 && static_cast<int64_t>(values.size()) == depth && static_cast<int64_t>(windows.size()) == depth &&
                  static_cast<int64_t>(layers.size()) == depth * tensorsPerLayer,
              "decode_step: there must be keys, values, a window and nine weights for each layer");
  for (const auto& x : {ids, position, slot})
    TORCH_CHECK(x.scalar_type() == at::kLong && x.is_contiguous() && x.numel() == rows, "decode_step: ids, position and slot must be int64, one for each row");
  TORCH_CHECK(sequence.scalar_type() == at::kInt && sequence.is_contiguous() && sequence.numel() == rows, "decode_step: sequence must be int32, one for each row");
  TORCH_CHECK(table.scalar_type() == at::kInt && table.is_contiguous() && table.dim() == 2, "decode_step: the table must be int32, a row for each sequence");
  TORCH_CHECK(wanted.scalar_type() == at::kLong && wanted.is_contiguous(), "decode_step: wanted must be int64");
  TORCH_CHECK(embedding.dim() == 2 && values[0].dim() == 4, "decode_step: the embedding must be a matrix, the values [blocks, size, heads, dim]");
  const int64_t blocks = values[0].size(0), blockSize = values[0].size(1), kvHeads = values[0].size(2), dim = values[0].size(3);
  Model m{embedding.size(1), heads, kvHeads, dim, wide, embedding.size(0), static_cast<float>(eps)};
  TORCH_CHECK(heads % kvHeads == 0 && dim % 2 == 0, "decode_step: heads do not match the cache");
  const int64_t positions = cos.size(0), qkvWidth = (heads + 2 * kvHeads) * dim;
  m.cos = floats(cos, positions * dim, "cos");
  m.sin = floats(sin, positions * dim, "sin");
  m.embedding = floats(embedding, m.vocabulary * m.hidden, "the embedding");
  m.finalNorm = floats(finalNorm, m.hidden, "the final norm");
  m.head = floats(head, product::packedSize(m.hidden, m.vocabulary), "the head");
  for (int64_t k = 0; k < depth; k++) {
    const auto* w = layers.begin() + k * tensorsPerLayer;
    const int64_t cells = blocks * blockSize * kvHeads * dim;
    floats(keys[k], cells, "keys");
    floats(values[k], cells, "values");
    m.layers.push_back({floats(w[0], m.hidden, "a norm"), floats(w[1], product::packedSize(m.hidden, qkvWidth), "qkv"), optional(w[2], qkvWidth, "the bias of qkv"),
                        optional(w[3], dim, "the norm of q"), optional(w[4], dim, "the norm of k"), floats(w[5], product::packedSize(heads * dim, m.hidden), "o"),
                        floats(w[6], m.hidden, "a norm"), floats(w[7], product::packedSize(m.hidden, 2 * wide), "gate and up"),
                        floats(w[8], product::packedSize(wide, m.hidden), "down"), keys[k].mutable_data_ptr<float>(), values[k].mutable_data_ptr<float>(), windows[k]});
  }
  auto logits = at::empty({wanted.numel(), m.vocabulary}, embedding.options());
  const int64_t* asked = wanted.const_data_ptr<int64_t>();
  Batch batch{ids.const_data_ptr<int64_t>(),      position.const_data_ptr<int64_t>(), slot.const_data_ptr<int64_t>(), sequence.const_data_ptr<int32_t>(),
              table.const_data_ptr<int32_t>(),    table.size(1),                      blockSize,                      {asked, asked + wanted.numel()},
              logits.mutable_data_ptr<float>()};
  for (size_t k = 0; k < batch.wanted.size(); k++)
    TORCH_CHECK(batch.wanted[k] >= 0 && batch.wanted[k] < rows && (k == 0 || batch.wanted[k] > batch.wanted[k - 1]), "decode_step: wanted must be ascending rows");
  // Where a sequence begins; its tokens are one thread's.
  std::vector<int64_t> starts;
  for (int64_t r = 0; r < rows; r++) {
    TORCH_CHECK(batch.ids[r] >= 0 && batch.ids[r] < m.vocabulary, "decode_step: token ", batch.ids[r], " is not in the vocabulary of ", m.vocabulary);
    TORCH_CHECK(batch.slots[r] >= 0 && batch.slots[r] < blocks * blockSize, "decode_step: slot ", batch.slots[r], " is outside the cache");
    TORCH_CHECK(batch.sequences[r] >= 0 && batch.sequences[r] < table.size(0), "decode_step: row ", r, " names a sequence that the table does not have");
    const int64_t last = batch.positions[r];
    TORCH_CHECK(last >= 0 && last < positions && last < batch.tableWidth * blockSize, "decode_step: position ", last, " is outside the rotary table or the block table");
    if (r == 0 || batch.sequences[r] != batch.sequences[r - 1]) starts.push_back(r);
    if (r + 1 < rows && batch.sequences[r + 1] == batch.sequences[r]) {
      TORCH_CHECK(batch.positions[r + 1] == last + 1, "decode_step: tokens of a sequence must stand in order");
      continue;
    }
    for (int64_t b = 0; b * blockSize <= last; b++) {
      const auto block = batch.table[batch.sequences[r] * batch.tableWidth + b];
      TORCH_CHECK(block >= 0 && block < blocks, "decode_step: block ", block, " is outside the cache");
    }
  }
  const auto count = static_cast<int64_t>(starts.size());
  starts.push_back(rows);
  at::parallel_for(0, count, std::max<int64_t>(1, 4 * count / std::max<int64_t>(rows, 1)), [&](int64_t begin, int64_t end) {
    const int64_t from = starts[begin], to = starts[end], pieces = (to - from + mostRows - 1) / mostRows, each = (to - from + pieces - 1) / pieces;
    // Kept from step to step.
    static thread_local Buffers buffers;
    buffers.fit(m, batch, each);
    for (int64_t first = from; first < to; first += each) carry(m, batch, first, std::min(each, to - first), buffers);
  });
  return logits;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def(
      "decode_step(Tensor ids, Tensor position, Tensor slot, Tensor sequence, Tensor table, Tensor wanted, Tensor[] keys, Tensor[] values, Tensor embedding, Tensor head, Tensor final_norm, "
      "Tensor[] layers, Tensor cos, Tensor sin, int heads, int wide, int[] windows, float eps) -> Tensor");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) { library.impl("decode_step", decodeStep); }
