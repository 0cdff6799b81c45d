// How the training pass of a small decoder is cut up. A thread takes some of the sequences through all layers by itself, as many rows at
// a time as its cache holds: nothing waits for anybody, and what passes between two products is still near when the next one wants it.
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "decoder.h"
#include "packed-heads.h"

namespace decoder {

// Rows that pass through the products between two attentions together.
constexpr int64_t chunkRows = 96;

// Families of sequences that one thread carries at once.
struct Unit {
  packed::Sequences sequences;
  std::vector<int64_t> tokens;  // of each row
  int64_t base;                 // rows of the units before it
  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

struct Plan {
  std::vector<Unit> units;
  std::vector<std::vector<int64_t>> ofThread;

  explicit Plan(const packed::Sequences& sequences) {
    const int64_t threads = at::get_num_threads();
    std::vector<int64_t> tokens, lengths, prefixes;
    int64_t base = 0;
    const auto close = [&] {
      if (tokens.empty()) return;
      const auto rows = static_cast<int64_t>(tokens.size());
      units.push_back({packed::Sequences(lengths, prefixes), std::move(tokens), base});
      base += rows;
      tokens.clear();
      lengths.clear();
      prefixes.clear();
    };
    for (const auto& family : sequences.families) {
      const auto root = static_cast<int64_t>(lengths.size());
      for (const int64_t s : family) {
        const auto& own = sequences.all[s];
        prefixes.push_back(s == family[0] ? -1 : root);
        lengths.push_back(own.length);
        for (int64_t t = 0; t < own.length; t++) tokens.push_back(own.start + t);
      }
      // Enough rows to fill the products. What is in a unit must not depend on the threads: the way back may have others.
      if (static_cast<int64_t>(tokens.size()) >= 2 * chunkRows) close();
    }
    close();
    // The largest first, each to the thread that has least to do.
    std::vector<int64_t> order(units.size()), load(threads);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return units[a].rows() > units[b].rows(); });
    ofThread.resize(threads);
    for (const int64_t unit : order) {
      const auto least = std::min_element(load.begin(), load.end()) - load.begin();
      ofThread[least].push_back(unit);
      load[least] += units[unit].rows();
    }
  }
};

struct Tokens {
  const int64_t* positions;
  std::vector<char> isWanted;
  bool anyWanted(const Unit& unit, int64_t first, int64_t rows) const {
    return std::any_of(unit.tokens.begin() + first, unit.tokens.begin() + first + rows, [this](int64_t token) { return isWanted[token] != 0; });
  }
};

inline packed::Heads headsOf(const Model& m, const Layer& layer) { return {m.heads, m.kvHeads, m.headDim, 1.0f / std::sqrt(static_cast<float>(m.headDim)), layer.window}; }

struct Buffers {
  std::vector<float> gradient, qkv, attended, deltas, logs, records;                    // of a unit's rows
  std::vector<float> normed, toNormed, sum, given, gateUp, activated, raw, weighted, panels;  // of a chunk's
  packed::Room room;
};

template <typename Body>
void byChunk(int64_t rows, Body body) {
  const int64_t pieces = std::max<int64_t>(1, (rows + chunkRows - 1) / chunkRows), each = (rows + pieces - 1) / pieces;
  for (int64_t first = 0; first < rows; first += each) body(first, std::min(each, rows - first));
}

// Of each unit: rows, and which of the wanted they are.
using Wanted = std::vector<std::vector<std::pair<int64_t, int64_t>>>;

inline Wanted wantedByUnit(const Plan& plan, const at::Tensor& wanted, int64_t tokens) {
  std::vector<std::pair<int64_t, int64_t>> placeOf(tokens);
  for (size_t u = 0; u < plan.units.size(); u++)
    for (int64_t r = 0; r < plan.units[u].rows(); r++) placeOf[plan.units[u].tokens[r]] = {u, r};
  Wanted wantedOf(plan.units.size());
  for (int64_t k = 0; k < wanted.numel(); k++) {
    const auto [unit, row] = placeOf[wanted.const_data_ptr<int64_t>()[k]];
    wantedOf[unit].push_back({row, k});
  }
  return wantedOf;
}

// Kept from call to call.
inline Buffers& buffers() {
  static thread_local Buffers own;
  return own;
}

inline void checkIndex(const char* name, const at::Tensor& x, int64_t count, int64_t limit, const char* what) {
  TORCH_CHECK(x.scalar_type() == at::kLong && x.is_contiguous() && (count < 0 || x.numel() == count), name, ": ", what, " must be int64", count < 0 ? "" : ", one for each token");
  const int64_t* values = x.const_data_ptr<int64_t>();
  for (int64_t k = 0; k < x.numel(); k++) TORCH_CHECK(values[k] >= 0 && values[k] < limit, name, ": ", what, " ", values[k], " is outside of 0..", limit - 1);
}

inline Tokens tokensOf(const char* name, const at::Tensor& position, const at::Tensor& wanted, const Model& m, int64_t count) {
  checkIndex(name, position, count, m.positions, "position");
  checkIndex(name, wanted, -1, count, "wanted");
  Tokens tokens{position.const_data_ptr<int64_t>(), std::vector<char>(count)};
  for (int64_t k = 0; k < wanted.numel(); k++) tokens.isWanted[wanted.const_data_ptr<int64_t>()[k]] = 1;
  return tokens;
}

}  // namespace decoder
