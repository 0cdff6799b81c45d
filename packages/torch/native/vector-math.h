// Loops that the compiler can turn into vector instructions: no calls, no early exits, sums in fixed lanes.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VERLET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define VERLET_CLONES
#endif
#define VERLET_INLINE inline __attribute__((always_inline))
#define VERLET_INLINE_LAMBDA __attribute__((always_inline))

// Rows of `width` floats that are worth a thread of their own; the measure is libtorch's.
VERLET_INLINE int64_t rowsPerThread(int64_t width) { return width >= 32768 ? 1 : 32768 / (width > 0 ? width : 1); }

// exp with the error of a rounding or two (Cephes' polynomial); inputs beyond float's range give 0 or the largest power.
VERLET_INLINE float fastExp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const float shifted = x * 1.44269504088896341f + 12582912.0f, n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  uint32_t bits;
  std::memcpy(&bits, &shifted, 4);
  bits = (bits + 127u) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return p * power;
}

// Sixteen lanes folded as a tree: no chain of additions to wait for.
VERLET_INLINE float foldSum(float (&lanes)[16]) {
  for (int k = 0; k < 8; k++) lanes[k] += lanes[k + 8];
  for (int k = 0; k < 4; k++) lanes[k] += lanes[k + 4];
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

// Sixteen partial sums: the order of additions is the same whatever the width of the machine's vectors.
VERLET_INLINE float laneSum(const float* x, int64_t n) {
  float partial[16] = {};
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (int lane = 0; lane < 16; lane++) partial[lane] += x[k + lane];
  for (int lane = 0; k < n; k++, lane++) partial[lane] += x[k];
  return foldSum(partial);
}

VERLET_INLINE float laneDot(const float* a, const float* b, int64_t n) {
  float partial[16] = {};
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (int lane = 0; lane < 16; lane++) partial[lane] += a[k + lane] * b[k + lane];
  for (int lane = 0; k < n; k++, lane++) partial[lane] += a[k] * b[k];
  return foldSum(partial);
}

// The largest of n > 0 values; a compiler that minds NaN makes no vectors of the plain loop.
VERLET_INLINE float laneMax(const float* x, int64_t n) {
  float lanes[16];
  for (int lane = 0; lane < 16; lane++) lanes[lane] = x[0];
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (int lane = 0; lane < 16; lane++) lanes[lane] = x[k + lane] > lanes[lane] ? x[k + lane] : lanes[lane];
  for (int lane = 0; k < n; k++, lane++) lanes[lane] = x[k] > lanes[lane] ? x[k] : lanes[lane];
  for (int half = 8; half > 0; half /= 2)
    for (int lane = 0; lane < half; lane++) lanes[lane] = lanes[lane + half] > lanes[lane] ? lanes[lane + half] : lanes[lane];
  return lanes[0];
}

// exp(scale * row - its largest) in place of a row of scores, zero beside begin..end, and their sum. Rows are worked on whole, in vectors
// of sixteen: what is not seen is computed too and put aside, which is cheaper than ends. Returns the log of what to divide by when
// nothing is subtracted.
VERLET_INLINE float softmaxRow(float* row, int32_t begin, int32_t end, int32_t columns, float scale, float* total) {
  float largest[16], sums[16] = {};
  for (int lane = 0; lane < 16; lane++) largest[lane] = row[begin];
  for (int32_t j = 0; j < columns; j += 16)
    for (int32_t lane = 0; lane < 16; lane++) {
      const float value = j + lane >= begin && j + lane < end ? row[j + lane] : row[begin];
      largest[lane] = value > largest[lane] ? value : largest[lane];
    }
  const float shift = laneMax(largest, 16) * scale;
  for (int32_t j = 0; j < columns; j += 16)
    for (int32_t lane = 0; lane < 16; lane++) {
      const float value = j + lane >= begin && j + lane < end ? fastExp(row[j + lane] * scale - shift) : 0.0f;
      row[j + lane] = value;
      sums[lane] += value;
    }
  *total = foldSum(sums);
  return shift + __builtin_logf(*total);
}
