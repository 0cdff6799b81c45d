// One query token against the cached keys and values of its sequence, on the CPU. Keys lie turned, [blocks, kvHeads, dim, size]:
// the scores of a block's keys are sums side by side, and no sum has to be folded. Values lie [blocks, size, kvHeads, dim].
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "vector-math.h"

namespace paged {

typedef float Lanes16 __attribute__((vector_size(64), aligned(4)));
typedef float Lanes8 __attribute__((vector_size(32), aligned(4)));

struct Cache {
  const float* keys;
  const float* values;
  const int32_t* table;  // the blocks of one sequence
  int64_t blockSize, kvHeads, headDim;
};

// Room for the scores of all heads over keys first..last.
inline int64_t scoresOf(int64_t heads, int64_t first, int64_t last, int64_t blockSize) {
  return heads * ((last + blockSize - 1) / blockSize - first / blockSize) * blockSize;
}

// Four sums by turns, so that none waits for the one before.
VERLET_INLINE void scoresOfSixteen(const float* query, const float* keys, int64_t dim, float* scores) {
  Lanes16 sums[4] = {};
  int64_t d = 0;
  for (; d + 4 <= dim; d += 4)
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; j++) {
      Lanes16 row;
      std::memcpy(&row, keys + (d + j) * 16, sizeof(row));
      sums[j] += query[d + j] * row;
    }
  for (; d < dim; d++) {
    Lanes16 row;
    std::memcpy(&row, keys + d * 16, sizeof(row));
    sums[0] += query[d] * row;
  }
  const Lanes16 total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  std::memcpy(scores, &total, sizeof(total));
}

VERLET_INLINE void scoresOfBlock(const float* query, const float* keys, int64_t dim, int64_t blockSize, float* scores) {
  if (blockSize == 16) return scoresOfSixteen(query, keys, dim, scores);
  for (int64_t j = 0; j < blockSize; j++) scores[j] = 0;
  for (int64_t d = 0; d < dim; d++)
    for (int64_t j = 0; j < blockSize; j++) scores[j] += query[d] * keys[d * blockSize + j];
}

// out += the values from..to of one block and head, weighed. A head is `wide` vectors of sixteen and `narrow` of eight; `ways` sums run by
// turns, so that none waits for the one before.
template <int wide, int narrow>
VERLET_INLINE void mixBlock(const float* weight, const float* values, int64_t row, int64_t from, int64_t to, float* out) {
  constexpr int ways = wide + narrow <= 2 ? 4 : 2;
  Lanes16 sums[ways][wide > 0 ? wide : 1] = {};
  Lanes8 halves[ways][narrow > 0 ? narrow : 1] = {};
  const auto add = [&](int way, int64_t j) VERLET_INLINE_LAMBDA {
#pragma GCC unroll 8
    for (int v = 0; v < wide; v++) {
      Lanes16 value;
      std::memcpy(&value, values + j * row + 16 * v, sizeof(value));
      sums[way][v] += weight[j] * value;
    }
    if constexpr (narrow > 0) {
      Lanes8 value;
      std::memcpy(&value, values + j * row + 16 * wide, sizeof(value));
      halves[way][0] += weight[j] * value;
    }
  };
  int64_t j = from;
  for (; j + ways <= to; j += ways)
#pragma GCC unroll 4
    for (int way = 0; way < ways; way++) add(way, j + way);
  for (; j < to; j++) add(0, j);
  for (int way = ways / 2; way > 0; way /= 2)
#pragma GCC unroll 2
    for (int k = 0; k < way; k++) {
#pragma GCC unroll 8
      for (int v = 0; v < wide; v++) sums[k][v] += sums[k + way][v];
      if constexpr (narrow > 0) halves[k][0] += halves[k + way][0];
    }
#pragma GCC unroll 8
  for (int v = 0; v < wide; v++) {
    Lanes16 before;
    std::memcpy(&before, out + 16 * v, sizeof(before));
    before += sums[0][v];
    std::memcpy(out + 16 * v, &before, sizeof(before));
  }
  if constexpr (narrow > 0) {
    Lanes8 before;
    std::memcpy(&before, out + 16 * wide, sizeof(before));
    before += halves[0][0];
    std::memcpy(out + 16 * wide, &before, sizeof(before));
  }
}

VERLET_INLINE void mixAny(const float* weight, const float* values, int64_t row, int64_t dim, int64_t from, int64_t to, float* out) {
  for (int64_t j = from; j < to; j++)
    for (int64_t d = 0; d < dim; d++) out[d] += weight[j] * values[j * row + d];
}

// A block that will be read soon is on its way while another one is worked on.
VERLET_INLINE void fetchBlock(const float* block, int64_t cells) {
  for (int64_t c = 0; c < cells; c += 16) __builtin_prefetch(block + c, 0, 2);
}

// The blocks that one token sees: `count` from number `base` of the table on, keys from..to of them. `next` has the blocks of whom comes next.
struct Seen {
  int64_t base, count, from, to;
  const int32_t* next;
  int64_t nextBlocks;
  VERLET_INLINE void fetch(const Cache& cache, const float* cells, int64_t block, int64_t size) const {
    if (base + block < nextBlocks && next[base + block] != cache.table[base + block]) fetchBlock(cells + static_cast<int64_t>(next[base + block]) * size, size);
  }
};

// out [heads, dim] = the values, weighed; `mix` does a block of a head.
template <typename Mix>
VERLET_INLINE void mixBlocks(const Cache& cache, const Seen& seen, int64_t heads, const float* weights, float* out, Mix mix) {
  const int64_t dim = cache.headDim, size = cache.blockSize, group = heads / cache.kvHeads, row = cache.kvHeads * dim, width = seen.count * size;
  for (int64_t k = 0; k < heads * dim; k++) out[k] = 0;
  for (int64_t block = 0; block < seen.count; block++) {
    seen.fetch(cache, cache.values, block, size * row);
    const float* values = cache.values + static_cast<int64_t>(cache.table[seen.base + block]) * size * row;
    const int64_t begin = std::max<int64_t>(0, seen.from - block * size), end = std::min(size, seen.to - block * size);
    for (int64_t h = 0; h < heads; h++) mix(weights + h * width + block * size, values + h / group * dim, row, begin, end, out + h * dim);
  }
}

// All heads of one token; keys first..last are seen. Blocks are read whole, one after the other, as they lie in memory. `scores` has
// room for `scoresOf`. `logs` takes the log of each head's normalizer.
VERLET_INLINE void attend(const float* query, const Cache& cache, int64_t heads, int64_t first, int64_t last, float scale, float* scores, float* out, float* logs = nullptr,
                          const int32_t* next = nullptr, int64_t nextBlocks = 0) {
  const int64_t dim = cache.headDim, size = cache.blockSize, group = heads / cache.kvHeads, cells = size * cache.kvHeads * dim, base = first / size;
  const Seen seen{base, (last + size - 1) / size - base, first - base * size, last - base * size, next, nextBlocks};
  const int64_t width = seen.count * size;
  for (int64_t block = 0; block < seen.count; block++) {
    seen.fetch(cache, cache.keys, block, cells);
    const float* keys = cache.keys + static_cast<int64_t>(cache.table[base + block]) * cells;
    for (int64_t h = 0; h < heads; h++) scoresOfBlock(query + h * dim, keys + h / group * dim * size, dim, size, scores + h * width + block * size);
  }
  for (int64_t h = 0; h < heads; h++) {
    float* s = scores + h * width;
    float sum, log;
    if (size % 16 == 0)
      log = softmaxRow(s, seen.from, seen.to, width, scale, &sum);
    else {
      const float largest = laneMax(s + seen.from, seen.to - seen.from);
      for (int64_t j = seen.from; j < seen.to; j++) s[j] = fastExp((s[j] - largest) * scale);
      sum = laneSum(s + seen.from, seen.to - seen.from);
      log = largest * scale + __builtin_logf(sum);
    }
    if (logs) logs[h] = log;
    const float inverse = 1.0f / sum;
    for (int64_t j = seen.from; j < seen.to; j++) s[j] *= inverse;
  }
  const auto with = [&](auto mix) VERLET_INLINE_LAMBDA { mixBlocks(cache, seen, heads, scores, out, mix); };
  switch (dim) {
#define VERLET_MIX(wide, narrow)                                                                                                                  \
  case 16 * wide + 8 * narrow:                                                                                                                    \
    return with([](const float* w, const float* v, int64_t row, int64_t from, int64_t to, float* o) VERLET_INLINE_LAMBDA { mixBlock<wide, narrow>(w, v, row, from, to, o); });
    VERLET_MIX(0, 1) VERLET_MIX(1, 0) VERLET_MIX(1, 1) VERLET_MIX(2, 0) VERLET_MIX(3, 0) VERLET_MIX(4, 0) VERLET_MIX(6, 0) VERLET_MIX(8, 0)
#undef VERLET_MIX
    default:
      with([dim](const float* w, const float* v, int64_t row, int64_t from, int64_t to, float* o) VERLET_INLINE_LAMBDA { mixAny(w, v, row, dim, from, to, o); });
  }
}

// A token's keys and values go to its slot.
VERLET_INLINE void storeToken(const float* key, const float* value, int64_t slot, int64_t blockSize, int64_t kvHeads, int64_t dim, float* keys, float* values) {
  const int64_t block = slot / blockSize, offset = slot % blockSize, width = kvHeads * dim;
  float* turned = keys + block * width * blockSize + offset;
  for (int64_t d = 0; d < width; d++) turned[d * blockSize] = key[d];
  std::memcpy(values + slot * width, value, width * sizeof(float));
}

}  // namespace paged
