// The training pass of a small decoder on the CPU: the way there, and the hidden states of a pass that was recorded.
#include <torch/library.h>
#include <torch/torch.h>

#include <cstring>

#include "decoder-units.h"

namespace {

using namespace decoder;

// Takes a unit's tokens there; their records stand one after the other from `base` on.
void forward(const Model& m, const Unit& unit, const Tokens& tokens, const int64_t* ids, const float* embedding, const decoder::Record& at, float* base, Buffers& b) {
  const int64_t size = at.size, rows = unit.rows(), dim = m.headDim;
  decoder::grow(b.normed, chunkRows * m.hidden);
  decoder::grow(b.activated, chunkRows * m.wide);
  for (int64_t r = 0; r < rows; r++) std::memcpy(base + r * size + at.input, embedding + ids[unit.tokens[r]] * m.hidden, m.hidden * sizeof(float));
  for (size_t l = 0; l < m.layers.size(); l++) {
    const Layer& layer = m.layers[l];
    const bool isLast = l + 1 == m.layers.size();
    float *own = base + l * at.step, *next = isLast ? base + at.last : own + at.step + at.input;
    byChunk(rows, [&](int64_t first, int64_t count) {
      float* row = own + first * size;
      decoder::norm(row + at.input, size, layer.inputNorm, count, m.hidden, m.eps, b.normed.data());
      product::run({b.normed.data(), m.hidden, layer.qkv, count, m.hidden, m.qkvWidth(), row + at.qkv, size, layer.qkvBias, 0});
      for (int64_t r = 0; r < count; r++) decoder::turn(m, layer, tokens.positions[unit.tokens[first + r]], row + r * size + at.qkv, row + r * size + at.raw);
    });
    const packed::Plane q{own + at.qkv, size, dim}, k{q.at(0, m.heads), size, dim}, v{k.at(0, m.kvHeads), size, dim};
    const packed::Plane out{own + at.attended, size, dim}, logs{own + at.logs, size, 1};
    const auto heads = headsOf(m, layer);
    for (int64_t kvHead = 0; kvHead < m.kvHeads; kvHead++)
      for (const auto& family : unit.sequences.families) packed::forward(heads, unit.sequences, family, kvHead, q, k, v, out, logs, b.room);
    byChunk(rows, [&](int64_t first, int64_t count) {
      if (isLast && !tokens.anyWanted(unit, first, count)) return;
      float* row = own + first * size;
      // The sums start from the residual, so they end as the residual with the layer's part added.
      product::run({row + at.attended, size, layer.output, count, m.headWidth(), m.hidden, row + at.sum, size, row + at.input, size});
      decoder::norm(row + at.sum, size, layer.postNorm, count, m.hidden, m.eps, b.normed.data());
      product::run({b.normed.data(), m.hidden, layer.gateUp, count, m.hidden, 2 * m.wide, row + at.gateUp, size});
      decoder::gate(row + at.gateUp, size, count, m.wide, b.activated.data());
      product::run({b.activated.data(), m.wide, layer.down, count, m.wide, m.hidden, next + first * size, size, row + at.sum, size});
    });
  }
}

// decoder_hidden(tape: pieces [rows, size], row [n] int64, norm [hidden], eps) -> what left the last layer, behind the last norm, [n, hidden]
at::Tensor hiddenOf(at::TensorList tape, const at::Tensor& row, const at::Tensor& finalNorm, double eps) {
  constexpr auto name = "decoder_hidden";
  const int64_t hidden = finalNorm.numel(), padded = (hidden + 15) / 16 * 16;
  const float* weight = decoder::floats(name, finalNorm, hidden, "the last norm");
  TORCH_CHECK(!tape.empty() && tape[0].dim() == 2 && tape[0].size(0) > 0, name, ": there is no tape");
  const int64_t perPiece = tape[0].size(0), size = tape[0].size(1);
  std::vector<const float*> pieces;
  for (const auto& piece : tape) pieces.push_back(decoder::floats(name, piece, perPiece * size, "a piece of the tape"));
  TORCH_CHECK(size >= padded, name, ": the tape is too narrow");
  checkIndex(name, row, -1, perPiece * static_cast<int64_t>(pieces.size()), "row");
  auto out = at::empty({row.numel(), hidden}, finalNorm.options());
  const int64_t* rows = row.const_data_ptr<int64_t>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(0, row.numel(), rowsPerThread(hidden), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; n++)
      decoder::norm(pieces[rows[n] / perPiece] + rows[n] % perPiece * size + size - padded, 0, weight, 1, hidden, static_cast<float>(eps), to + n * hidden);
  });
  return out;
}

// decoder_forward(ids, position [tokens] int64, lengths, prefixes: see packed_attention, wanted [n] int64: tokens whose hidden states
//   are returned, embedding [vocabulary, hidden], final norm, layers, cos, sin, windows: see decoder.h, heads, kv heads, wide, eps,
//   keep: whether it will be walked back)
//   -> (hidden [n, hidden], tape [tokens, size], each token's row of it [tokens]; of nothing where nothing is kept)
std::tuple<at::Tensor, at::Tensor, at::Tensor> decoderForward(const at::Tensor& ids, const at::Tensor& position, at::IntArrayRef lengths, at::IntArrayRef prefixes,
                                                              const at::Tensor& wanted, const at::Tensor& embedding, const at::Tensor& finalNorm, at::TensorList layers,
                                                              const at::Tensor& cos, const at::Tensor& sin, int64_t heads, int64_t kvHeads, int64_t wide,
                                                              at::IntArrayRef windows, double eps, bool keep) {
  constexpr auto name = "decoder_forward";
  TORCH_CHECK(embedding.dim() == 2 && cos.dim() == 2, name, ": embedding and rotary tables must be matrices");
  const Model m = decoder::read(name, {embedding.size(1), heads, kvHeads, cos.size(1), wide, static_cast<float>(eps)}, layers, cos, sin, windows, decoder::Direction::forward);
  const float *table = decoder::floats(name, embedding, embedding.numel(), "the embedding"), *weight = decoder::floats(name, finalNorm, m.hidden, "the last norm");
  const packed::Sequences sequences(lengths, prefixes);
  checkIndex(name, ids, sequences.tokens, embedding.size(0), "token");
  const Tokens tokens = tokensOf(name, position, wanted, m, sequences.tokens);
  const decoder::Record at(m, keep);
  const Plan plan(sequences);
  const auto wantedOf = wantedByUnit(plan, wanted, sequences.tokens);
  auto hidden = at::empty({wanted.numel(), m.hidden}, embedding.options());
  auto tape = at::empty({keep ? std::max<int64_t>(1, sequences.tokens) : 0, at.size}, embedding.options()), index = at::empty({keep ? sequences.tokens : 0}, ids.options());
  float *memory = tape.mutable_data_ptr<float>(), *out = hidden.mutable_data_ptr<float>();
  int64_t* rowOf = index.mutable_data_ptr<int64_t>();
  at::parallel_for(0, static_cast<int64_t>(plan.ofThread.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; thread++)
      for (const int64_t number : plan.ofThread[thread]) {
        const Unit& unit = plan.units[number];
        Buffers& b = buffers();
        if (!keep) decoder::grow(b.records, unit.rows() * at.size);
        float* base = keep ? memory + unit.base * at.size : b.records.data();
        forward(m, unit, tokens, ids.const_data_ptr<int64_t>(), table, at, base, b);
        for (const auto& [row, which] : wantedOf[number]) decoder::norm(base + row * at.size + at.last, 0, weight, 1, m.hidden, m.eps, out + which * m.hidden);
        for (int64_t r = 0; keep && r < unit.rows(); r++) rowOf[unit.tokens[r]] = unit.base + r;
      }
  });
  return {hidden, tape, index};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("decoder_hidden(Tensor[] tape, Tensor row, Tensor final_norm, float eps) -> Tensor");
  library.def(
      "decoder_forward(Tensor ids, Tensor position, int[] lengths, int[] prefixes, Tensor wanted, Tensor embedding, Tensor final_norm, Tensor[] layers, Tensor cos, Tensor sin, "
      "int heads, int kv_heads, int wide, int[] windows, float eps, bool keep) -> (Tensor hidden, Tensor tape, Tensor index)");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("decoder_hidden", hiddenOf);
  library.impl("decoder_forward", decoderForward);
}
