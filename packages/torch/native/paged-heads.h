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

// Room for the scores of `group` heads over keys first..last.
inline int64_t scoresOf(int64_t group, int64_t first, int64_t last, int64_t blockSize) {
  return group * ((last + blockSize - 1) / blockSize - first / blockSize) * blockSize;
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

// Values weighed and summed, two by two, with the sums in registers: `vectors` of them make a head.
template <typename Lanes, int vectors>
VERLET_INLINE void mix(const float* weights, const Cache& cache, int64_t kvHead, int64_t first, int64_t last, float* out) {
  constexpr int64_t lanes = sizeof(Lanes) / sizeof(float), dim = vectors * lanes;
  const int64_t row = cache.kvHeads * dim, base = first / cache.blockSize;
  Lanes even[vectors] = {}, odd[vectors] = {};
  for (int64_t block = base; block * cache.blockSize < last; block++) {
    const float* values = cache.values + (static_cast<int64_t>(cache.table[block]) * cache.blockSize * cache.kvHeads + kvHead) * dim;
    const float* weight = weights + (block - base) * cache.blockSize;
    const int64_t from = std::max<int64_t>(0, first - block * cache.blockSize), to = std::min(cache.blockSize, last - block * cache.blockSize);
    int64_t j = from;
    for (; j + 2 <= to; j += 2)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) {
        Lanes a, b;
        std::memcpy(&a, values + j * row + v * lanes, sizeof(a));
        std::memcpy(&b, values + (j + 1) * row + v * lanes, sizeof(b));
        even[v] += weight[j] * a;
        odd[v] += weight[j + 1] * b;
      }
    for (; j < to; j++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) {
        Lanes a;
        std::memcpy(&a, values + j * row + v * lanes, sizeof(a));
        even[v] += weight[j] * a;
      }
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
    const Lanes sum = even[v] + odd[v];
    std::memcpy(out + v * lanes, &sum, sizeof(sum));
  }
}

VERLET_INLINE void mixAny(const float* weights, const Cache& cache, int64_t kvHead, int64_t first, int64_t last, float* out) {
  const int64_t dim = cache.headDim, row = cache.kvHeads * dim, base = first / cache.blockSize;
  for (int64_t d = 0; d < dim; d++) out[d] = 0;
  for (int64_t at = first; at < last; at++) {
    const int64_t block = at / cache.blockSize, offset = at % cache.blockSize;
    const float* values = cache.values + (static_cast<int64_t>(cache.table[block]) * cache.blockSize + offset) * row + kvHead * dim;
    const float weight = weights[at - base * cache.blockSize];
    for (int64_t d = 0; d < dim; d++) out[d] += weight * values[d];
  }
}

// `group` query heads that share one key-value head; keys first..last are seen. `scores` has room for `scoresOf`.
VERLET_INLINE void attend(const float* query, const Cache& cache, int64_t kvHead, int64_t group, int64_t first, int64_t last, float scale, float* scores,
                          float* out) {
  const int64_t dim = cache.headDim, base = first / cache.blockSize, blocks = (last + cache.blockSize - 1) / cache.blockSize - base;
  const int64_t width = blocks * cache.blockSize, from = first - base * cache.blockSize, to = last - base * cache.blockSize;
  for (int64_t block = 0; block < blocks; block++) {
    const float* keys = cache.keys + (static_cast<int64_t>(cache.table[base + block]) * cache.kvHeads + kvHead) * dim * cache.blockSize;
    for (int64_t g = 0; g < group; g++) scoresOfBlock(query + g * dim, keys, dim, cache.blockSize, scores + g * width + block * cache.blockSize);
  }
  for (int64_t g = 0; g < group; g++) {
    float* s = scores + g * width;
    float largest = s[from];
    for (int64_t j = from; j < to; j++) largest = s[j] > largest ? s[j] : largest;
    for (int64_t j = from; j < to; j++) s[j] = fastExp((s[j] - largest) * scale);
    const float inverse = 1.0f / laneSum(s + from, to - from);
    float* o = out + g * dim;
    switch (dim) {
      case 8: mix<Lanes8, 1>(s, cache, kvHead, first, last, o); break;
      case 16: mix<Lanes16, 1>(s, cache, kvHead, first, last, o); break;
      case 24: mix<Lanes8, 3>(s, cache, kvHead, first, last, o); break;
      case 32: mix<Lanes16, 2>(s, cache, kvHead, first, last, o); break;
      case 48: mix<Lanes16, 3>(s, cache, kvHead, first, last, o); break;
      case 64: mix<Lanes16, 4>(s, cache, kvHead, first, last, o); break;
      case 96: mix<Lanes16, 6>(s, cache, kvHead, first, last, o); break;
      case 128: mix<Lanes16, 8>(s, cache, kvHead, first, last, o); break;
      default: mixAny(s, cache, kvHead, first, last, o);
    }
    for (int64_t d = 0; d < dim; d++) o[d] *= inverse;
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
