// New tokens of many sequences through a whole decoder on the CPU, in one call. A thread takes some of the sequences and carries
// their tokens through all layers by itself: nothing waits for anybody, and what passes between two products stays in its cache.
// Run operator by operator, a small model spends most of a step between its products.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "decoder.h"
#include "paged-heads.h"
#include "sampling.h"

namespace {

using decoder::Layer;

struct Model : decoder::Model {
  int64_t vocabulary;
  const float *embedding, *finalNorm, *head;
  std::vector<float*> keys, values;  // of each layer
};

struct Batch {
  const int64_t *ids, *positions, *slots;
  const int32_t *sequences, *table;
  int64_t tableWidth, blockSize;
  std::vector<int64_t> wanted;  // rows whose logits are asked for, in order
  float* logits;
  // Where the activations of each row are written down, or null.
  std::vector<float*> records;
  void record(int64_t first, int64_t rows, int64_t offset, const std::vector<float>& values, int64_t width) const {
    if (records.empty()) return;
    for (int64_t r = 0; r < rows; r++)
      if (records[first + r]) decoder::stream(values.data() + r * width, width, records[first + r] + offset);
  }
};

// Rows that a thread carries at once: enough to be worth fetching the weights for, few enough to stay in its cache.
constexpr int64_t mostRows = 64;

struct Buffers {
  std::vector<float> x, normed, qkv, raw, attended, logs, wide, gated, scores;
  void fit(const Model& m, const Batch& batch, int64_t rows) {
    decoder::grow(x, rows * m.hidden);
    decoder::grow(normed, rows * m.hidden);
    decoder::grow(qkv, rows * m.qkvWidth());
    decoder::grow(raw, m.normsHeads() ? rows * m.turnedHeads() * m.headDim : 0);
    decoder::grow(attended, rows * m.headWidth());
    decoder::grow(logs, rows * m.heads);
    decoder::grow(wide, rows * 2 * m.wide);
    decoder::grow(gated, rows * m.wide);
    decoder::grow(scores, m.heads * batch.tableWidth * batch.blockSize);
  }
};

// Norms and turns queries and keys, stores keys and values, attends.
VERLET_CLONES void attend(const Model& m, int64_t l, const Batch& batch, int64_t first, int64_t rows, Buffers& b) {
  const Layer& layer = m.layers[l];
  const int64_t dim = m.headDim;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  for (int64_t r = 0; r < rows; r++) {
    const int64_t row = first + r, last = batch.positions[row] + 1, from = layer.window > 0 && last > layer.window ? last - layer.window : 0;
    const int64_t following = r + 1 < rows ? row + 1 : row;
    float *query = b.qkv.data() + r * m.qkvWidth(), *key = query + m.headWidth();
    decoder::turn(m, layer, batch.positions[row], query, layer.qNorm ? b.raw.data() + r * m.turnedHeads() * dim : nullptr);
    paged::storeToken(key, key + m.kvHeads * dim, batch.slots[row], batch.blockSize, m.kvHeads, dim, m.keys[l], m.values[l]);
    const paged::Cache cache{m.keys[l], m.values[l], batch.table + batch.sequences[row] * batch.tableWidth, batch.blockSize, m.kvHeads, dim};
    paged::attend(query, cache, m.heads, from, last, scale, b.scores.data(), b.attended.data() + r * m.headWidth(), b.logs.data() + r * m.heads,
                  batch.table + batch.sequences[following] * batch.tableWidth, batch.positions[following] / batch.blockSize + 1);
  }
}

void carry(const Model& m, const Batch& batch, const decoder::Record& at, int64_t first, int64_t rows, Buffers& b) {
  const int64_t rawWidth = m.normsHeads() ? m.turnedHeads() * m.headDim : 0;
  for (int64_t r = 0; r < rows; r++) std::memcpy(b.x.data() + r * m.hidden, m.embedding + batch.ids[first + r] * m.hidden, m.hidden * sizeof(float));
  auto times = [rows](const std::vector<float>& a, const float* panels, int64_t inner, int64_t columns, float* y, const float* start, int64_t startRow) {
    product::run({a.data(), inner, panels, rows, inner, columns, y, columns, start, startRow});
  };
  for (int64_t l = 0; l < static_cast<int64_t>(m.layers.size()); l++) {
    const Layer& layer = m.layers[l];
    const int64_t own = l * at.layer;
    batch.record(first, rows, own + at.input, b.x, m.hidden);
    decoder::norm(b.x.data(), m.hidden, layer.inputNorm, rows, m.hidden, m.eps, b.normed.data());
    times(b.normed, layer.qkv, m.hidden, m.qkvWidth(), b.qkv.data(), layer.qkvBias, 0);
    attend(m, l, batch, first, rows, b);
    batch.record(first, rows, own + at.qkv, b.qkv, m.qkvWidth());
    batch.record(first, rows, own + at.raw, b.raw, rawWidth);
    batch.record(first, rows, own + at.attended, b.attended, m.headWidth());
    batch.record(first, rows, own + at.logs, b.logs, m.heads);
    // The sums start from the residual, so they end as the residual with the layer's part added.
    times(b.attended, layer.output, m.headWidth(), m.hidden, b.x.data(), b.x.data(), m.hidden);
    batch.record(first, rows, own + at.sum, b.x, m.hidden);
    decoder::norm(b.x.data(), m.hidden, layer.postNorm, rows, m.hidden, m.eps, b.normed.data());
    times(b.normed, layer.gateUp, m.hidden, 2 * m.wide, b.wide.data(), nullptr, 0);
    batch.record(first, rows, own + at.gateUp, b.wide, 2 * m.wide);
    decoder::gate(b.wide.data(), 2 * m.wide, rows, m.wide, b.gated.data());
    times(b.gated, layer.down, m.wide, m.hidden, b.x.data(), b.x.data(), m.hidden);
  }
  batch.record(first, rows, at.last, b.x, m.hidden);
  decoder::norm(b.x.data(), m.hidden, m.finalNorm, rows, m.hidden, m.eps, b.normed.data());
  const auto from = std::lower_bound(batch.wanted.begin(), batch.wanted.end(), first), to = std::lower_bound(from, batch.wanted.end(), first + rows);
  const int64_t count = to - from;
  for (int64_t k = 0; k < count; k++)
    std::memmove(b.normed.data() + k * m.hidden, b.normed.data() + (from[k] - first) * m.hidden, m.hidden * sizeof(float));
  float* logits = batch.logits + (from - batch.wanted.begin()) * m.vocabulary;
  product::run({b.normed.data(), m.hidden, m.head, count, m.hidden, m.vocabulary, logits, m.vocabulary});
}

Model readModel(const char* name, at::TensorList keys, at::TensorList values, const at::Tensor& embedding, const at::Tensor& head, const at::Tensor& finalNorm, at::TensorList layers,
                const at::Tensor& cos, const at::Tensor& sin, int64_t heads, int64_t wide, at::IntArrayRef windows, double eps) {
  const auto depth = static_cast<int64_t>(keys.size());
  TORCH_CHECK(depth > 0 && static_cast<int64_t>(values.size()) == depth && static_cast<int64_t>(windows.size()) == depth, name,
              ": there must be keys, values and a window for each layer");
  TORCH_CHECK(embedding.dim() == 2 && values[0].dim() == 4, name, ": the embedding must be a matrix, the values [blocks, size, heads, dim]");
  const int64_t blocks = values[0].size(0), blockSize = values[0].size(1), kvHeads = values[0].size(2), dim = values[0].size(3);
  Model m{decoder::read(name, {embedding.size(1), heads, kvHeads, dim, wide, static_cast<float>(eps)}, layers, cos, sin, windows, decoder::Direction::forward),
          embedding.size(0)};
  m.embedding = decoder::floats(name, embedding, m.vocabulary * m.hidden, "the embedding");
  m.finalNorm = decoder::floats(name, finalNorm, m.hidden, "the final norm");
  m.head = decoder::floats(name, head, product::packedSize(m.hidden, m.vocabulary), "the head");
  for (int64_t k = 0; k < depth; k++) {
    const int64_t cells = blocks * blockSize * kvHeads * dim;
    decoder::floats(name, keys[k], cells, "keys");
    decoder::floats(name, values[k], cells, "values");
    m.keys.push_back(keys[k].mutable_data_ptr<float>());
    m.values.push_back(values[k].mutable_data_ptr<float>());
  }
  return m;
}

// Carries rows in pieces of about one size.
void carryAll(const Model& m, const Batch& batch, const decoder::Record& at, int64_t from, int64_t to) {
  const int64_t pieces = std::max<int64_t>(1, (to - from + mostRows - 1) / mostRows), each = (to - from + pieces - 1) / pieces;
  // Kept from step to step.
  static thread_local Buffers buffers;
  buffers.fit(m, batch, each);
  for (int64_t first = from; first < to; first += each) carry(m, batch, at, first, std::min(each, to - first), buffers);
  if (!batch.records.empty()) decoder::streamed();
}

// decode_step(ids, position, slot [rows] int64, sequence [rows] int32: row of the table; tokens of a sequence stand together and in
//   order, table [sequences, blocks] int32, wanted [n] int64: rows whose logits are returned, ascending, keys (per layer, [blocks, kvHeads, dim, size]), values
//   (per layer, [blocks, size, kvHeads, dim]), embedding [vocabulary, hidden], head (packed), final norm, layers, cos, sin, windows: see
//   decoder.h, heads, wide, eps, tape: pieces of records or none, record [rows] int64: each row's in the tape, -1: none)
//   -> logits [n, vocabulary]
at::Tensor decodeStep(const at::Tensor& ids, const at::Tensor& position, const at::Tensor& slot, const at::Tensor& sequence, const at::Tensor& table, const at::Tensor& wanted,
                      at::TensorList keys, at::TensorList values,
                      const at::Tensor& embedding, const at::Tensor& head, const at::Tensor& finalNorm, at::TensorList layers, const at::Tensor& cos,
                      const at::Tensor& sin, int64_t heads, int64_t wide, at::IntArrayRef windows, double eps, at::TensorList tape, const std::optional<at::Tensor>& record) {
  constexpr auto name = "decode_step";
  const int64_t rows = ids.numel();
  for (const auto& x : {ids, position, slot})
    TORCH_CHECK(x.scalar_type() == at::kLong && x.is_contiguous() && x.numel() == rows, "decode_step: ids, position and slot must be int64, one for each row");
  TORCH_CHECK(sequence.scalar_type() == at::kInt && sequence.is_contiguous() && sequence.numel() == rows, "decode_step: sequence must be int32, one for each row");
  TORCH_CHECK(table.scalar_type() == at::kInt && table.is_contiguous() && table.dim() == 2, "decode_step: the table must be int32, a row for each sequence");
  TORCH_CHECK(wanted.scalar_type() == at::kLong && wanted.is_contiguous(), "decode_step: wanted must be int64");
  const Model m = readModel(name, keys, values, embedding, head, finalNorm, layers, cos, sin, heads, wide, windows, eps);
  const int64_t blocks = values[0].size(0), blockSize = values[0].size(1);
  auto logits = at::empty({wanted.numel(), m.vocabulary}, embedding.options());
  const int64_t* asked = wanted.const_data_ptr<int64_t>();
  Batch batch{ids.const_data_ptr<int64_t>(),      position.const_data_ptr<int64_t>(), slot.const_data_ptr<int64_t>(), sequence.const_data_ptr<int32_t>(),
              table.const_data_ptr<int32_t>(),    table.size(1),                      blockSize,                      {asked, asked + wanted.numel()},
              logits.mutable_data_ptr<float>()};
  const decoder::Tape records(name, tape, m);
  if (record) {
    TORCH_CHECK(record->scalar_type() == at::kLong && record->is_contiguous() && record->numel() == rows, "decode_step: record must be int64, one for each row");
    for (int64_t r = 0; r < rows; r++) {
      const int64_t own = record->const_data_ptr<int64_t>()[r];
      TORCH_CHECK(own < records.rows(), "decode_step: record ", own, " is behind the tape's end");
      batch.records.push_back(own < 0 ? nullptr : records.row(own));
    }
  }
  for (size_t k = 0; k < batch.wanted.size(); k++)
    TORCH_CHECK(batch.wanted[k] >= 0 && batch.wanted[k] < rows && (k == 0 || batch.wanted[k] > batch.wanted[k - 1]), "decode_step: wanted must be ascending rows");
  // Where a sequence begins; its tokens are one thread's.
  std::vector<int64_t> starts;
  for (int64_t r = 0; r < rows; r++) {
    TORCH_CHECK(batch.ids[r] >= 0 && batch.ids[r] < m.vocabulary, "decode_step: token ", batch.ids[r], " is not in the vocabulary of ", m.vocabulary);
    TORCH_CHECK(batch.slots[r] >= 0 && batch.slots[r] < blocks * blockSize, "decode_step: slot ", batch.slots[r], " is outside the cache");
    TORCH_CHECK(batch.sequences[r] >= 0 && batch.sequences[r] < table.size(0), "decode_step: row ", r, " names a sequence that the table does not have");
    const int64_t last = batch.positions[r];
    TORCH_CHECK(last >= 0 && last < m.positions && last < batch.tableWidth * blockSize, "decode_step: position ", last, " is outside the rotary table or the block table");
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
    carryAll(m, batch, records.at, starts[begin], starts[end]);
  });
  return logits;
}

// What a row's draws ask for, and where it stops.
struct Column {
  const int64_t* values;
  int64_t operator[](int64_t row) const { return values[row]; }
};

Column columnOf(const char* what, const at::Tensor& x, int64_t rows) {
  TORCH_CHECK(x.scalar_type() == at::kLong && x.is_contiguous() && x.numel() == rows, "decode_steps: ", what, " must be int64, one for each row");
  return {x.const_data_ptr<int64_t>()};
}

// decode_steps(id [rows] int64: the last token of each sequence, position [rows]: its own, drawn [rows]: tokens sampled before, limit [rows]: how
//   many may be now, table [rows, blocks] int32: with room for them, ends [rows, n] int64: tokens behind which a sequence ends, steps,
//   temperature, top_p, min_p [rows] float32, top_k, seed, stream [rows] int64, then as decode_step, first_record: where the rows' records begin in
//   the tape, those of one step after those of the other; -1: none) -> (token, log_prob [rows, steps]; -1 behind a sequence's end)
// A thread takes its sequences through all steps: between them it waits for nobody.
std::tuple<at::Tensor, at::Tensor> decodeSteps(const at::Tensor& id, const at::Tensor& position, const at::Tensor& drawn, const at::Tensor& limit, const at::Tensor& table,
                                               const at::Tensor& ends, int64_t steps, const at::Tensor& temperature, const at::Tensor& topP, const at::Tensor& minP,
                                               const at::Tensor& topK, const at::Tensor& seed, const at::Tensor& stream, at::TensorList keys, at::TensorList values,
                                               const at::Tensor& embedding, const at::Tensor& head, const at::Tensor& finalNorm, at::TensorList layers, const at::Tensor& cos,
                                               const at::Tensor& sin, int64_t heads, int64_t wide, at::IntArrayRef windows, double eps, at::TensorList tape,
                                               int64_t firstRecord) {
  constexpr auto name = "decode_steps";
  const int64_t rows = id.numel();
  const Model m = readModel(name, keys, values, embedding, head, finalNorm, layers, cos, sin, heads, wide, windows, eps);
  const int64_t blocks = values[0].size(0), blockSize = values[0].size(1);
  const decoder::Tape records(name, tape, m);
  const Column ids = columnOf("id", id, rows), positions = columnOf("position", position, rows), before = columnOf("drawn", drawn, rows), limits = columnOf("limit", limit, rows);
  const Column topKs = columnOf("top_k", topK, rows), seeds = columnOf("seed", seed, rows), streams = columnOf("stream", stream, rows);
  const float *heats = decoder::floats(name, temperature, rows, "temperature"), *topPs = decoder::floats(name, topP, rows, "top_p"), *minPs = decoder::floats(name, minP, rows, "min_p");
  TORCH_CHECK(steps > 0 && (firstRecord < 0 || rows == 0 || steps <= (records.rows() - firstRecord) / rows), "decode_steps: the tape has no room for ", steps, " steps of ", rows,
              " rows");
  TORCH_CHECK(table.scalar_type() == at::kInt && table.is_contiguous() && table.dim() == 2 && table.size(0) == rows, "decode_steps: the table must be int32, a row for each sequence");
  TORCH_CHECK(ends.scalar_type() == at::kLong && ends.is_contiguous() && ends.dim() == 2 && ends.size(0) == rows, "decode_steps: ends must be int64, a row for each sequence");
  const int32_t* places = table.const_data_ptr<int32_t>();
  const int64_t *endings = ends.const_data_ptr<int64_t>(), endCount = ends.size(1), width = table.size(1);
  const int64_t room = std::min(m.positions, width * blockSize);
  for (int64_t r = 0; r < rows; r++) {
    TORCH_CHECK(ids[r] >= 0 && ids[r] < m.vocabulary, "decode_steps: token ", ids[r], " is not in the vocabulary of ", m.vocabulary);
    TORCH_CHECK(positions[r] >= 0 && positions[r] <= room && limits[r] >= 0 && limits[r] <= steps && limits[r] <= room - positions[r], "decode_steps: ", limits[r],
                " tokens from position ", positions[r], " on are too many for the steps, the rotary table or the block table");
    const int64_t last = positions[r] + limits[r] - 1;
    for (int64_t b = 0; b * blockSize <= last; b++)
      TORCH_CHECK(places[r * width + b] >= 0 && places[r * width + b] < blocks, "decode_steps: block ", places[r * width + b], " is outside the cache");
  }
  auto tokens = at::full({rows, steps}, -1, id.options()), logProbs = at::zeros({rows, steps}, temperature.options());
  int64_t* token = tokens.mutable_data_ptr<int64_t>();
  float* logProb = logProbs.mutable_data_ptr<float>();
  at::parallel_for(0, rows, 4, [&](int64_t begin, int64_t end) {
    sampling::Drawer drawer;
    std::vector<int64_t> active, given, at, slots, every;
    std::vector<int32_t> sequences;
    static thread_local std::vector<float> logits;
    decoder::grow(logits, (end - begin) * m.vocabulary);
    for (int64_t r = begin; r < end; r++)
      if (limits[r] > 0) active.push_back(r);
    for (int64_t step = 0; step < steps && !active.empty(); step++) {
      given.clear(), at.clear(), slots.clear(), sequences.clear(), every.clear();
      std::vector<float*> written;
      for (const int64_t r : active) {
        const int64_t here = positions[r] + step;
        every.push_back(given.size());
        given.push_back(step == 0 ? ids[r] : token[r * steps + step - 1]);
        at.push_back(here);
        slots.push_back(places[r * width + here / blockSize] * blockSize + here % blockSize);
        sequences.push_back(r);
        if (firstRecord >= 0) written.push_back(records.row(firstRecord + step * rows + r));
      }
      const Batch batch{given.data(), at.data(), slots.data(), sequences.data(), places, width, blockSize, every, logits.data(), written};
      carryAll(m, batch, records.at, 0, active.size());
      std::vector<int64_t> left;
      for (size_t n = 0; n < active.size(); n++) {
        const int64_t r = active[n];
        const auto chosen = drawer.draw(logits.data() + n * m.vocabulary, m.vocabulary, {heats[r], topPs[r], minPs[r], topKs[r], seeds[r], streams[r], before[r] + step});
        token[r * steps + step] = chosen.token;
        logProb[r * steps + step] = chosen.logProb;
        const int64_t* own = endings + r * endCount;
        if (step + 1 < limits[r] && std::find(own, own + endCount, chosen.token) == own + endCount) left.push_back(r);
      }
      active = std::move(left);
    }
  });
  return {tokens, logProbs};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def(
      "decode_step(Tensor ids, Tensor position, Tensor slot, Tensor sequence, Tensor table, Tensor wanted, Tensor[] keys, Tensor[] values, Tensor embedding, Tensor head, Tensor final_norm, "
      "Tensor[] layers, Tensor cos, Tensor sin, int heads, int wide, int[] windows, float eps, Tensor[] tape, Tensor? record) -> Tensor");
  library.def(
      "decode_steps(Tensor id, Tensor position, Tensor drawn, Tensor limit, Tensor table, Tensor ends, int steps, Tensor temperature, Tensor top_p, Tensor min_p, Tensor top_k, Tensor seed, "
      "Tensor stream, Tensor[] keys, Tensor[] values, Tensor embedding, Tensor head, Tensor final_norm, Tensor[] layers, Tensor cos, Tensor sin, int heads, int wide, int[] windows, "
      "float eps, Tensor[] tape, int first_record) -> (Tensor token, Tensor log_prob)");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("decode_step", decodeStep);
  library.impl("decode_steps", decodeSteps);
}
