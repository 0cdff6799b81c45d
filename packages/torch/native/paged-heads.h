// One query token against the cached keys and values of its sequence, on the CPU. Keys lie turned, [blocks, kvHeads, dim, size]:
// the scores of a block's keys are sums side by side, and no sum has to be folded. Values lie [blocks, size, kvHeads, dim].
#pragma once
#include <algorithm>
#include <cmath>
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

// out += the values from..to of one block and head, weighed; sums run two by two in registers, `vectors` of them make a head.
template <typename Lanes, int vectors>
VERLET_INLINE void mixBlock(const float* weight, const float* values, int64_t row, int64_t from, int64_t to, float* out) {
  constexpr int64_t lanes = sizeof(Lanes) / sizeof(float);
  Lanes even[vectors], odd[vectors] = {};
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) std::memcpy(&even[v], out + v * lanes, sizeof(Lanes));
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
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
    const Lanes sum = even[v] + odd[v];
    std::memcpy(out + v * lanes, &sum, sizeof(sum));
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

// All heads of one token; keys first..last are seen. Blocks are read whole, one after the other, as they lie in memory. `scores` has
// room for `scoresOf`. `logs` takes the log of each head's normalizer. `next` has the
// blocks of whom comes next.
VERLET_INLINE void attend(const float* query, const Cache& cache, int64_t heads, int64_t first, int64_t last, float scale, float* scores, float* out, float* logs = nullptr,
                          const int32_t* next = nullptr, int64_t nextBlocks = 0) {
  const int64_t dim = cache.headDim, size = cache.blockSize, group = heads / cache.kvHeads, cells = size * cache.kvHeads * dim;
  const int64_t base = first / size, blocks = (last + size - 1) / size - base, width = blocks * size, from = first - base * size, to = last - base * size;
  for (int64_t block = 0; block < blocks; block++) {
    const int64_t own = cache.table[base + block];
    if (base + block < nextBlocks && next[base + block] != own) fetchBlock(cache.keys + next[base + block] * cells, cells);
    const float* keys = cache.keys + own * cells;
    for (int64_t h = 0; h < heads; h++) scoresOfBlock(query + h * dim, keys + h / group * dim * size, dim, size, scores + h * width + block * size);
  }
  for (int64_t h = 0; h < heads; h++) {
    float* s = scores + h * width;
    const float largest = laneMax(s + from, to - from);
    for (int64_t j = from; j < to; j++) s[j] = fastExp((s[j] - largest) * scale);
    const float sum = laneSum(s + from, to - from), inverse = 1.0f / sum;
    if (logs) logs[h] = largest * scale + std::log(sum);
    for (int64_t j = from; j < to; j++) s[j] *= inverse;
    for (int64_t d = 0; d < dim; d++) out[h * dim + d] = 0;
  }
  const int64_t row = cache.kvHeads * dim;
  for (int64_t block = 0; block < blocks; block++) {
    const int64_t own = cache.table[base + block];
    if (base + block < nextBlocks && next[base + block] != own) fetchBlock(cache.values + next[base + block] * cells, cells);
    const float* values = cache.values + own * cells;
    const int64_t begin = std::max<int64_t>(0, from - block * size), end = std::min(size, to - block * size);
    for (int64_t h = 0; h < heads; h++) {
      const float *weight = scores + h * width + block * size, *v = values + h / group * dim;
      float* o = out + h * dim;
      switch (dim) {
        case 8: mixBlock<Lanes8, 1>(weight, v, row, begin, end, o); break;
        case 16: mixBlock<Lanes16, 1>(weight, v, row, begin, end, o); break;
        case 24: mixBlock<Lanes8, 3>(weight, v, row, begin, end, o); break;
        case 32: mixBlock<Lanes16, 2>(weight, v, row, begin, end, o); break;
        case 48: mixBlock<Lanes16, 3>(weight, v, row, begin, end, o); break;
        case 64: mixBlock<Lanes16, 4>(weight, v, row, begin, end, o); break;
        case 96: mixBlock<Lanes16, 6>(weight, v, row, begin, end, o); break;
        case 128: mixBlock<Lanes16, 8>(weight, v, row, begin, end, o); break;
        default: mixAny(weight, v, row, dim, begin, end, o);
      }
    }
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
