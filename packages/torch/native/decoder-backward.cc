// The training pass of a small decoder on the CPU: the way back. Gradients of the weights are summed by each thread and then over the
// threads, in order.
#include <torch/library.h>
#include <torch/torch.h>

#include <cstring>

#include "decoder-units.h"
#include "swiglu.h"

namespace {

using namespace decoder;

// Distance between rows that are also read column by column: an odd number of cache lines, else they crowd into a few of the cache's
// sets and push each other out.
int64_t spread(int64_t width) { return ((width + 15) / 16 | 1) * 16; }

// Where the gradients of the weights lie that one thread sums. That of `down` is the other way round: so the narrow side is laid out.
struct Sums {
  struct Offsets {
    int64_t inputNorm, qkv, qkvBias, qNorm, kNorm, output, postNorm, gateUp, down;
  };
  std::vector<Offsets> layers;
  int64_t finalNorm, size = 0;
  explicit Sums(const Model& m) {
    const auto next = [this](int64_t width) { return std::exchange(size, size + width); };
    for (const auto& layer : m.layers) {
      Offsets at{};
      at.inputNorm = next(m.hidden);
      at.qkv = next(m.qkvWidth() * m.hidden);
      at.qkvBias = next(layer.qkvBias ? m.qkvWidth() : 0);
      at.qNorm = next(layer.qNorm ? m.headDim : 0);
      at.kNorm = next(layer.kNorm ? m.headDim : 0);
      at.output = next(m.hidden * m.headWidth());
      at.postNorm = next(m.hidden);
      at.gateUp = next(2 * m.wide * m.hidden);
      at.down = next(m.wide * m.hidden);
      layers.push_back(at);
    }
    finalNorm = next(m.hidden);
  }
};

// Adds the gradient of x to `toX`, that of the weight to `toWeight`; `weighted` has room for a row.
VERLET_CLONES void normBackward(const float* gradient, const float* x, const float* weight, int64_t rows, int64_t n, float eps, float* weighted, float* toX, float* toWeight) {
  for (int64_t r = 0; r < rows; r++, gradient += n, x += n, toX += n) {
    const float scale = 1.0f / __builtin_sqrtf(laneDot(x, x, n) / n + eps);
    for (int64_t k = 0; k < n; k++) {
      weighted[k] = gradient[k] * weight[k];
      toWeight[k] += gradient[k] * x[k] * scale;
    }
    const float mean = laneDot(weighted, x, n) * scale * scale * scale / n;
    for (int64_t k = 0; k < n; k++) toX[k] += weighted[k] * scale - x[k] * mean;
  }
}

VERLET_CLONES void addRow(const float* x, int64_t n, float* y) {
  for (int64_t k = 0; k < n; k++) y[k] += x[k];
}

VERLET_CLONES void headDots(const float* a, const float* b, int64_t heads, int64_t dim, float* dots) {
  for (int64_t h = 0; h < heads; h++) dots[h] = laneDot(a + h * dim, b + h * dim, dim);
}

// Turns the gradients of one token's queries and keys back and, where they were normed, takes them behind the norm.
VERLET_CLONES void turnBack(const Model& m, const Layer& layer, int64_t position, const float* raw, float* weighted, float* gradient, float* toQNorm, float* toKNorm) {
  const int64_t dim = m.headDim, half = dim / 2;
  const float *cos = m.cos + position * dim, *sin = m.sin + position * dim;
  for (int64_t h = 0; h < m.turnedHeads(); h++) {
    float* g = gradient + h * dim;
    for (int64_t k = 0; k < half; k++) {
      const float a = g[k], b = g[k + half];
      g[k] = a * cos[k] + b * sin[k];
      g[k + half] = b * cos[k] - a * sin[k];
    }
    if (!layer.qNorm) continue;
    const float *x = raw + h * dim, *weight = h < m.heads ? layer.qNorm : layer.kNorm;
    float* toWeight = h < m.heads ? toQNorm : toKNorm;
    const float scale = 1.0f / __builtin_sqrtf(laneDot(x, x, dim) / dim + m.eps);
    for (int64_t k = 0; k < dim; k++) {
      weighted[k] = g[k] * weight[k];
      toWeight[k] += g[k] * x[k] * scale;
    }
    const float mean = laneDot(weighted, x, dim) * scale * scale * scale / dim;
    for (int64_t k = 0; k < dim; k++) g[k] = weighted[k] * scale - x[k] * mean;
  }
}

struct Way {
  const Tape& tape;
  const int64_t* index;  // each token's record
  const Wanted& wanted;
  const float* gradient;
  const float* finalNorm;
  float* toInput;
};

// Takes the gradients of a unit's tokens back.
void backward(const Model& m, const Unit& unit, int64_t number, const Tokens& tokens, const Way& way, const Sums& places, float* sums, Buffers& b) {
  const auto& at = way.tape.at;
  const int64_t rows = unit.rows(), hidden = m.hidden, dim = m.headDim, qkvWidth = m.qkvWidth(), headWidth = m.headWidth();
  const int64_t qkvRow = spread(qkvWidth), gateUpRow = spread(2 * m.wide), wideRow = spread(m.wide);
  decoder::grow(b.gradient, rows * hidden);
  decoder::grow(b.qkv, rows * qkvRow);
  decoder::grow(b.attended, rows * headWidth);
  decoder::grow(b.deltas, rows * m.heads);
  decoder::grow(b.logs, rows * m.heads);
  for (auto* room : {&b.normed, &b.toNormed, &b.sum}) decoder::grow(*room, chunkRows * hidden);
  decoder::grow(b.given, chunkRows * headWidth);
  decoder::grow(b.gateUp, chunkRows * gateUpRow);
  decoder::grow(b.activated, chunkRows * wideRow);
  decoder::grow(b.weighted, std::max(hidden, dim));
  decoder::grow(b.panels, std::max(product::packedSize(chunkRows, hidden), product::packedSize(chunkRows, headWidth)));
  const auto gather = [&](int64_t first, int64_t count, int64_t offset, int64_t width, float* to, int64_t toRow = 0) {
    for (int64_t r = 0; r < count; r++) std::memcpy(to + r * (toRow ? toRow : width), way.tape.row(way.index[unit.tokens[first + r]]) + offset, width * sizeof(float));
  };
  // The records of a chunk's rows are on their way while the one before is worked on.
  const auto fetch = [&](int64_t first, int64_t offset, int64_t width) {
    for (int64_t r = first; r < std::min(first + chunkRows, rows); r++) {
      const float* from = way.tape.row(way.index[unit.tokens[r]]) + offset;
      for (int64_t k = 0; k < width; k += 16) __builtin_prefetch(from + k, 0, 2);
    }
  };
  // to [wide, columns] += a [count, wide]' times other [count, columns]
  const auto addOuter = [&](const float* a, int64_t aRow, int64_t wide, const float* other, int64_t columns, int64_t count, float* to) {
    product::packHere(other, count, columns, columns, 1, b.panels.data());
    product::addOuterHere(a, aRow, b.panels.data(), count, wide, columns, to, columns);
  };

  // Behind the last norm: a token may be wanted many times.
  std::fill_n(b.gradient.begin(), rows * hidden, 0.0f);
  for (const auto& [row, which] : way.wanted[number]) addRow(way.gradient + which * hidden, hidden, b.gradient.data() + row * hidden);
  byChunk(rows, [&](int64_t first, int64_t count) {
    if (!tokens.anyWanted(unit, first, count)) return;
    float* gradient = b.gradient.data() + first * hidden;
    gather(first, count, at.last, hidden, b.sum.data());
    std::memcpy(b.toNormed.data(), gradient, count * hidden * sizeof(float));
    std::fill_n(gradient, count * hidden, 0.0f);
    normBackward(b.toNormed.data(), b.sum.data(), way.finalNorm, count, hidden, m.eps, b.weighted.data(), gradient, sums + places.finalNorm);
  });

  for (int64_t l = static_cast<int64_t>(m.layers.size()) - 1; l >= 0; l--) {
    const Layer& layer = m.layers[l];
    const auto& place = places.layers[l];
    const int64_t own = l * at.layer;
    const bool isLast = l + 1 == static_cast<int64_t>(m.layers.size());
    byChunk(rows, [&](int64_t first, int64_t count) {
      float *gradient = b.gradient.data() + first * hidden, *attended = b.attended.data() + first * headWidth, *deltas = b.deltas.data() + first * m.heads;
      if (isLast && !tokens.anyWanted(unit, first, count)) {
        std::fill_n(attended, count * headWidth, 0.0f);
        std::fill_n(deltas, count * m.heads, 0.0f);
        return;
      }
      gather(first, count, own + at.gateUp, 2 * m.wide, b.gateUp.data(), gateUpRow);
      gather(first, count, own + at.sum, hidden, b.sum.data());
      gather(first, count, own + at.attended, headWidth, b.given.data());
      fetch(first + count, own + at.attended, at.layer - at.attended);
      product::run({gradient, hidden, layer.down, count, hidden, m.wide, b.activated.data(), wideRow});
      // What SwiGLU gave takes the place of its gradient, and what it was given becomes its own gradient.
      for (int64_t r = 0; r < count; r++) {
        float* given = b.gateUp.data() + r * gateUpRow;
        swiglu::exchangeRow(b.activated.data() + r * wideRow, given, given + m.wide, m.wide);
      }
      addOuter(b.activated.data(), wideRow, m.wide, gradient, hidden, count, sums + place.down);
      decoder::norm(b.sum.data(), hidden, layer.postNorm, count, hidden, m.eps, b.normed.data());
      addOuter(b.gateUp.data(), gateUpRow, 2 * m.wide, b.normed.data(), hidden, count, sums + place.gateUp);
      product::run({b.gateUp.data(), gateUpRow, layer.gateUp, count, 2 * m.wide, hidden, b.toNormed.data(), hidden});
      normBackward(b.toNormed.data(), b.sum.data(), layer.postNorm, count, hidden, m.eps, b.weighted.data(), gradient, sums + place.postNorm);
      addOuter(gradient, hidden, hidden, b.given.data(), headWidth, count, sums + place.output);
      product::run({gradient, hidden, layer.output, count, hidden, headWidth, attended, headWidth});
      for (int64_t r = 0; r < count; r++) headDots(attended + r * headWidth, b.given.data() + r * headWidth, m.heads, dim, deltas + r * m.heads);
    });

    gather(0, rows, own + at.qkv, qkvWidth, b.qkv.data(), qkvRow);
    gather(0, rows, own + at.logs, m.heads, b.logs.data());
    const packed::Plane q{b.qkv.data(), qkvRow, dim}, k{q.at(0, m.heads), qkvRow, dim}, v{k.at(0, m.kvHeads), qkvRow, dim};
    const packed::Plane outer{b.attended.data(), headWidth, dim}, deltas{b.deltas.data(), m.heads, 1}, logs{b.logs.data(), m.heads, 1};
    for (int64_t kvHead = 0; kvHead < m.kvHeads; kvHead++)
      for (const auto& family : unit.sequences.families) packed::backward(headsOf(m, layer), unit.sequences, family, kvHead, q, k, v, outer, deltas, logs, q, k, v, b.room);

    byChunk(rows, [&](int64_t first, int64_t count) {
      float *gradient = b.gradient.data() + first * hidden, *qkv = b.qkv.data() + first * qkvRow;
      for (int64_t r = 0; r < count; r++) {
        const int64_t token = unit.tokens[first + r];
        turnBack(m, layer, tokens.positions[token], way.tape.row(way.index[token]) + own + at.raw, b.weighted.data(), qkv + r * qkvRow, sums + place.qNorm, sums + place.kNorm);
        if (layer.qkvBias) addRow(qkv + r * qkvRow, qkvWidth, sums + place.qkvBias);
      }
      gather(first, count, own + at.input, hidden, b.sum.data());
      if (l > 0 && first == 0) fetch(0, own - at.layer + at.attended, at.layer - at.attended);
      decoder::norm(b.sum.data(), hidden, layer.inputNorm, count, hidden, m.eps, b.normed.data());
      addOuter(qkv, qkvRow, qkvWidth, b.normed.data(), hidden, count, sums + place.qkv);
      product::run({qkv, qkvRow, layer.qkv, count, qkvWidth, hidden, b.toNormed.data(), hidden});
      normBackward(b.toNormed.data(), b.sum.data(), layer.inputNorm, count, hidden, m.eps, b.weighted.data(), gradient, sums + place.inputNorm);
    });
  }
  for (int64_t r = 0; r < rows; r++) std::memcpy(way.toInput + unit.tokens[r] * hidden, b.gradient.data() + r * hidden, hidden * sizeof(float));
}

VERLET_CLONES void addUp(const std::vector<std::vector<float>>& sums, int64_t first, int64_t count, float* to) {
  for (int64_t k = 0; k < count; k++) to[k] = sums[0][first + k];
  for (size_t thread = 1; thread < sums.size(); thread++) {
    const float* from = sums[thread].data() + first;
    for (int64_t k = 0; k < count; k++) to[k] += from[k];
  }
}

// decoder_backward(gradient of the hidden states [n, hidden], tape: pieces, index [tokens]: each token's row of it, ..., layers: in panels
//   for products with the gradients of outputs) -> (gradient of the embedded tokens [tokens, hidden], then nine for each layer as they are
//   given, empty where there is none, then that of the last norm)
std::vector<at::Tensor> decoderBackward(const at::Tensor& gradient, at::TensorList tape, const at::Tensor& index, const at::Tensor& position, at::IntArrayRef lengths,
                                        at::IntArrayRef prefixes, const at::Tensor& wanted, const at::Tensor& finalNorm, at::TensorList layers, const at::Tensor& cos,
                                        const at::Tensor& sin, int64_t heads, int64_t kvHeads, int64_t wide, at::IntArrayRef windows, double eps) {
  constexpr auto name = "decoder_backward";
  TORCH_CHECK(cos.dim() == 2, name, ": the rotary tables must be matrices");
  const int64_t hidden = finalNorm.numel();
  const Model m = decoder::read(name, {hidden, heads, kvHeads, cos.size(1), wide, static_cast<float>(eps)}, layers, cos, sin, windows, decoder::Direction::backward);
  const packed::Sequences sequences(lengths, prefixes);
  const Tape records(name, tape, m);
  checkIndex(name, index, sequences.tokens, records.rows(), "row of the tape");
  const Tokens tokens = tokensOf(name, position, wanted, m, sequences.tokens);
  const Plan plan(sequences);
  const Sums places(m);
  const auto wantedOf = wantedByUnit(plan, wanted, sequences.tokens);
  auto toInput = at::empty({sequences.tokens, hidden}, finalNorm.options());

  const Way way{records,
                index.const_data_ptr<int64_t>(),
                wantedOf,
                decoder::floats(name, gradient, wanted.numel() * hidden, "the gradient"),
                decoder::floats(name, finalNorm, hidden, "the last norm"),
                toInput.mutable_data_ptr<float>()};
  // Kept from call to call.
  static thread_local std::vector<std::vector<float>> kept;
  auto& sums = kept;
  sums.resize(plan.ofThread.size());
  at::parallel_for(0, static_cast<int64_t>(plan.ofThread.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; thread++) {
      sums[thread].assign(places.size, 0.0f);
      for (const int64_t unit : plan.ofThread[thread]) backward(m, plan.units[unit], unit, tokens, way, places, sums[thread].data(), buffers());
    }
  });

  std::vector<at::Tensor> results{toInput};
  const auto take = [&](int64_t from, int64_t rows, int64_t columns) {
    auto x = columns == 0 ? at::empty({rows}, finalNorm.options()) : at::empty({rows, columns}, finalNorm.options());
    float* to = x.mutable_data_ptr<float>();
    at::parallel_for(0, x.numel(), 65536, [&](int64_t begin, int64_t end) { addUp(sums, from + begin, end - begin, to + begin); });
    results.push_back(x);
  };
  for (size_t l = 0; l < m.layers.size(); l++) {
    const auto& at = places.layers[l];
    take(at.inputNorm, hidden, 0);
    take(at.qkv, m.qkvWidth(), hidden);
    take(at.qkvBias, m.layers[l].qkvBias ? m.qkvWidth() : 0, 0);
    take(at.qNorm, m.layers[l].qNorm ? m.headDim : 0, 0);
    take(at.kNorm, m.layers[l].kNorm ? m.headDim : 0, 0);
    take(at.output, hidden, m.headWidth());
    take(at.postNorm, hidden, 0);
    take(at.gateUp, 2 * wide, hidden);
    take(at.down, wide, hidden);
    results.back() = results.back().t().contiguous();
  }
  take(places.finalNorm, hidden, 0);
  return results;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def(
      "decoder_backward(Tensor gradient, Tensor[] tape, Tensor index, Tensor position, int[] lengths, int[] prefixes, Tensor wanted, Tensor final_norm, Tensor[] layers, Tensor cos, "
      "Tensor sin, int heads, int kv_heads, int wide, int[] windows, float eps) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) { library.impl("decoder_backward", decoderBackward); }
