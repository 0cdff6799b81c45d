#include "product.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "vector-math.h"

namespace product {
namespace {

typedef float Vector16 __attribute__((vector_size(64), aligned(4)));
typedef float Vector8 __attribute__((vector_size(32), aligned(4)));

// Terms summed before moving on: a panel's part of them stays in the second-level cache.
constexpr int64_t innerBlock = 1024;
// Rows that meet one panel after the other: they stay in the second-level cache too.
constexpr int64_t rowBlock = 96;

// `rows` times two vectors of sums, in registers from the first term to the last.
template <typename Vector, int rows, bool tiled>
VERLET_INLINE void tile(const float* a, int64_t aStep, const float* panel, int64_t inner, const float* start, int64_t startRow, float* y,
                        int64_t yRow) {
  constexpr int lanes = sizeof(Vector) / sizeof(float);
  Vector low[rows] = {}, high[rows] = {};
  if (start) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      std::memcpy(&low[r], start + r * startRow, sizeof(Vector));
      std::memcpy(&high[r], start + r * startRow + lanes, sizeof(Vector));
    }
  }
  for (int64_t k = 0; k < inner; k++) {
    Vector left, right;
    std::memcpy(&left, panel + k * panelWidth, sizeof(Vector));
    std::memcpy(&right, panel + k * panelWidth + lanes, sizeof(Vector));
    // Terms that stand rows apart are too far apart for the machine to guess the next.
    if constexpr (tiled) {
      __builtin_prefetch(a + (k + 8) * aStep, 0, 3);
      __builtin_prefetch(a + (k + 8) * aStep + rows - 1, 0, 3);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const float value = tiled ? a[k * aStep + r] : a[r * aStep + k];
      low[r] += value * left;
      high[r] += value * right;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
    std::memcpy(y + r * yRow, &low[r], sizeof(Vector));
    std::memcpy(y + r * yRow + lanes, &high[r], sizeof(Vector));
  }
}

template <typename Vector, bool tiled>
VERLET_INLINE void tileOf(int64_t rows, const float* a, int64_t aStep, const float* panel, int64_t inner, const float* start, int64_t startRow,
                          float* y, int64_t yRow) {
  switch (rows) {
#define VERLET_TILE(n) \
  case n: return tile<Vector, n, tiled>(a, aStep, panel, inner, start, startRow, y, yRow);
    VERLET_TILE(1) VERLET_TILE(2) VERLET_TILE(3) VERLET_TILE(4) VERLET_TILE(5) VERLET_TILE(6)
  }
  if constexpr (sizeof(Vector) == sizeof(Vector16)) switch (rows) {
      VERLET_TILE(7) VERLET_TILE(8) VERLET_TILE(9) VERLET_TILE(10) VERLET_TILE(11) VERLET_TILE(12)
#undef VERLET_TILE
    }
}

VERLET_INLINE void copyPart(const float* from, int64_t width, float* to) {
  int64_t k = 0;
  for (; k + 8 <= width; k += 8) std::memcpy(to + k, from + k, 8 * sizeof(float));
  for (; k < width; k++) to[k] = from[k];
}

// One panel against some rows; narrow machines take a panel in two halves. Where the matrix ends within the panel, the sums go
// through a buffer of a panel's width.
template <typename Vector, int64_t most, bool tiled>
VERLET_INLINE void panelRows(const float* a, int64_t aStep, int64_t rows, const float* panel, int64_t inner, int64_t width, const float* start, int64_t startRow,
                             float* y, int64_t yRow) {
  constexpr int64_t columns = 2 * sizeof(Vector) / sizeof(float);
  float edge[most * panelWidth] = {};
  for (int64_t r = 0; r < rows;) {
    const int64_t pieces = (rows - r + most - 1) / most, now = (rows - r + pieces - 1) / pieces;
    const float *left = tiled ? a + r : a + r * aStep, *from = start ? start + r * startRow : nullptr;
    float* to = y + r * yRow;
    if (width == panelWidth)
      for (int64_t c = 0; c < panelWidth; c += columns)
        tileOf<Vector, tiled>(now, left, aStep, panel + c, inner, from ? from + c : nullptr, startRow, to + c, yRow);
    else {
      for (int64_t n = 0; from && n < now; n++) copyPart(from + n * startRow, width, edge + n * panelWidth);
      for (int64_t c = 0; c < width; c += columns)
        tileOf<Vector, tiled>(now, left, aStep, panel + c, inner, from ? edge + c : nullptr, panelWidth, edge + c, panelWidth);
      for (int64_t n = 0; n < now; n++) copyPart(edge + n * panelWidth, width, to + n * yRow);
    }
    r += now;
  }
}

template <typename Vector, int64_t most, bool tiled>
VERLET_INLINE void runWith(const Task& t) {
  const int64_t held = t.panelInner ? t.panelInner : t.inner;
  for (int64_t r = 0; r < t.rows; r += rowBlock) {
    const int64_t rows = std::min(rowBlock, t.rows - r);
    for (int64_t k = 0; k == 0 || k < t.inner; k += innerBlock) {
      const int64_t inner = std::min(innerBlock, t.inner - k);
      // From the second block of terms on, the sums go on from where they are.
      const float* start = k == 0 ? t.start : t.y;
      const int64_t startRow = k == 0 ? t.startRow : t.yRow;
      const float* a = tiled ? t.a + k * t.aInner + r : t.a + k + r * t.aRow;
      for (int64_t c = 0; c < t.columns; c += panelWidth)
        panelRows<Vector, most, tiled>(a, tiled ? t.aInner : t.aRow, rows, t.panels + c * held + k * panelWidth, inner, std::min(panelWidth, t.columns - c),
                                       start ? start + r * startRow + c : nullptr, startRow, t.y + r * t.yRow + c, t.yRow);
    }
  }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target("arch=x86-64-v4"), optimize("O3"))) void runV4(const Task& task) {
  task.aRow ? runWith<Vector16, tileRows, false>(task) : runWith<Vector16, tileRows, true>(task);
}
__attribute__((target("arch=x86-64-v3"), optimize("O3"))) void runV3(const Task& task) {
  task.aRow ? runWith<Vector8, tileRows / 2, false>(task) : runWith<Vector8, tileRows / 2, true>(task);
}
void runPlain(const Task& task) { task.aRow ? runWith<Vector8, 2, false>(task) : runWith<Vector8, 2, true>(task); }

using Run = void (*)(const Task&);
Run choose() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd"))
    return runV4;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? runV3 : runPlain;
}
#else
using Run = void (*)(const Task&);
void runPlain(const Task& task) { task.aRow ? runWith<Vector8, 2, false>(task) : runWith<Vector8, 2, true>(task); }
Run choose() { return runPlain; }
#endif

const Run chosen = choose();

VERLET_CLONES void packRows(const float* matrix, int64_t innerStride, int64_t inner, int64_t width, float* panel) {
  for (int64_t k = 0; k < inner; k++) {
    for (int64_t j = 0; j < width; j++) panel[k * panelWidth + j] = matrix[k * innerStride + j];
    for (int64_t j = width; j < panelWidth; j++) panel[k * panelWidth + j] = 0;
  }
}

typedef float Vector4 __attribute__((vector_size(16), aligned(4)));
typedef int32_t Index4 __attribute__((vector_size(16)));
// One meaning, two names: clang knows only the first, GCC has it from 12 on.
#if defined(__clang__) || __GNUC__ >= 12
#define VERLET_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define VERLET_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Index4{__VA_ARGS__})
#endif

// Four terms of four columns, turned in registers.
VERLET_INLINE void turnFour(const float* matrix, int64_t columnStride, float* panel) {
  Vector4 a, b, c, d;
  std::memcpy(&a, matrix, sizeof(a));
  std::memcpy(&b, matrix + columnStride, sizeof(b));
  std::memcpy(&c, matrix + 2 * columnStride, sizeof(c));
  std::memcpy(&d, matrix + 3 * columnStride, sizeof(d));
  const Vector4 ab = VERLET_SHUFFLE(a, b, 0, 4, 1, 5), AB = VERLET_SHUFFLE(a, b, 2, 6, 3, 7);
  const Vector4 cd = VERLET_SHUFFLE(c, d, 0, 4, 1, 5), CD = VERLET_SHUFFLE(c, d, 2, 6, 3, 7);
  const Vector4 turned[4] = {VERLET_SHUFFLE(ab, cd, 0, 1, 4, 5), VERLET_SHUFFLE(ab, cd, 2, 3, 6, 7), VERLET_SHUFFLE(AB, CD, 0, 1, 4, 5),
                             VERLET_SHUFFLE(AB, CD, 2, 3, 6, 7)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) std::memcpy(panel + i * panelWidth, &turned[i], sizeof(Vector4));
}

// Whole lines are read, and what is written stays in the first-level cache.
VERLET_CLONES void packTurned(const float* matrix, int64_t columnStride, int64_t inner, int64_t width, float* panel) {
  int64_t k = 0;
  for (; k + 16 <= inner; k += 16) {
    int64_t j = 0;
    for (; j + 4 <= width; j += 4)
      for (int64_t i = 0; i < 16; i += 4) turnFour(matrix + j * columnStride + k + i, columnStride, panel + (k + i) * panelWidth + j);
    for (; j < panelWidth; j++)
      for (int64_t i = 0; i < 16; i++) panel[(k + i) * panelWidth + j] = j < width ? matrix[j * columnStride + k + i] : 0;
  }
  for (; k < inner; k++)
    for (int64_t j = 0; j < panelWidth; j++) panel[k * panelWidth + j] = j < width ? matrix[j * columnStride + k] : 0;
}

// Columns of one panel, without zeros behind them.
VERLET_CLONES void turnColumns(const float* rows, int64_t rowStride, int64_t count, int64_t inner, float* panel) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    int64_t k = 0;
    for (; k + 4 <= inner; k += 4) turnFour(rows + j * rowStride + k, rowStride, panel + k * panelWidth + j);
    for (; k < inner; k++)
      for (int64_t i = j; i < j + 4; i++) panel[k * panelWidth + i] = rows[i * rowStride + k];
  }
  for (; j < count; j++)
    for (int64_t k = 0; k < inner; k++) panel[k * panelWidth + j] = rows[j * rowStride + k];
}

void packPanel(const float* matrix, int64_t inner, int64_t columns, int64_t innerStride, int64_t columnStride, int64_t panel, float* panels) {
  const int64_t first = panel * panelWidth, width = std::min(panelWidth, columns - first);
  if (columnStride == 1)
    packRows(matrix + first, innerStride, inner, width, panels + first * inner);
  else
    packTurned(matrix + first * columnStride, columnStride, inner, width, panels + first * inner);
}

// [terms, rows] to [rows / 12][terms][12]
VERLET_CLONES void packTiles(const float* a, int64_t aRow, int64_t terms, int64_t rows, float* tiles) {
  for (int64_t t = 0; t < terms; t++) {
    const float* from = a + t * aRow;
    int64_t r = 0;
    for (; r + tileRows <= rows; r += tileRows) std::memcpy(tiles + r * terms + t * tileRows, from + r, tileRows * sizeof(float));
    for (int64_t j = r; j < rows; j++) tiles[r * terms + t * tileRows + j - r] = from[j];
  }
}

}  // namespace

bool isFast() { return chosen != runPlain; }

void run(const Task& task) { chosen(task); }

void runParallel(const Task& task) {
  const int64_t threads = at::get_num_threads(), perRow = task.inner * task.columns;
  const int64_t grain = std::max<int64_t>(tileRows, 200000 / std::max<int64_t>(perRow, 1));
  if (task.rows >= 2 * tileRows * threads || task.columns < 2 * panelWidth * threads) {
    at::parallel_for(0, task.rows, grain, [&](int64_t begin, int64_t end) {
      Task part = task;
      part.a += begin * task.aRow;
      part.y += begin * task.yRow;
      if (part.start) part.start += begin * task.startRow;
      part.rows = end - begin;
      run(part);
    });
    return;
  }
  const int64_t perPanel = std::max<int64_t>(1, task.rows * task.inner * panelWidth);
  at::parallel_for(0, panelsOf(task.columns), std::max<int64_t>(1, 200000 / perPanel), [&](int64_t begin, int64_t end) {
    Task part = task;
    part.panels += begin * panelWidth * (task.panelInner ? task.panelInner : task.inner);
    part.y += begin * panelWidth;
    if (part.start) part.start += begin * panelWidth;
    part.columns = std::min(end * panelWidth, task.columns) - begin * panelWidth;
    run(part);
  });
}

void pack(const float* matrix, int64_t inner, int64_t columns, int64_t innerStride, int64_t columnStride, float* panels) {
  at::parallel_for(0, panelsOf(columns), std::max<int64_t>(1, 32768 / (panelWidth * std::max<int64_t>(inner, 1))), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; panel++) packPanel(matrix, inner, columns, innerStride, columnStride, panel, panels);
  });
}

void packHere(const float* matrix, int64_t inner, int64_t columns, int64_t innerStride, int64_t columnStride, float* panels) {
  for (int64_t panel = 0; panel < panelsOf(columns); panel++) packPanel(matrix, inner, columns, innerStride, columnStride, panel, panels);
}

void layColumns(const float* rows, int64_t rowStride, int64_t count, int64_t inner, int64_t first, float* panels) {
  for (int64_t done = 0; done < count;) {
    const int64_t column = first + done, lane = column % panelWidth, now = std::min(count - done, panelWidth - lane);
    turnColumns(rows + done * rowStride, rowStride, now, inner, panels + (column - lane) * inner + lane);
    done += now;
  }
}

void addOuterHere(const float* a, int64_t aTerm, const float* panels, int64_t terms, int64_t rows, int64_t columns, float* y, int64_t yRow) {
  for (int64_t r = 0; r < rows; r += tileRows)
    run({a + r, 0, panels, std::min(tileRows, rows - r), terms, columns, y + r * yRow, yRow, y + r * yRow, yRow, 0, aTerm});
}

void outer(const float* a, int64_t aRow, const float* b, int64_t bRow, int64_t terms, int64_t rows, int64_t columns, float* y) {
  // Blocks of terms whose part of b fits half of a small second-level cache.
  const int64_t block = std::clamp<int64_t>(131072 / std::max<int64_t>(columns, 1), 64, 512), chunk = 20 * tileRows;
  const int64_t tiles = (rows + tileRows - 1) / tileRows;
  at::parallel_for(0, tiles, std::max<int64_t>(1, 200000 / std::max<int64_t>(1, terms * columns * tileRows)), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * tileRows, last = std::min(end * tileRows, rows);
    // Kept between calls: fresh memory of this size would be cleared and mapped each time.
    static thread_local std::vector<float> panels, left;
    panels.resize(std::max<size_t>(panels.size(), packedSize(block, columns)));
    left.resize(std::max<size_t>(left.size(), chunk * block));
    for (int64_t t = 0; t == 0 || t < terms; t += block) {
      const int64_t now = std::min(block, terms - t);
      for (int64_t panel = 0; panel < panelsOf(columns); panel++) packPanel(b + t * bRow, now, columns, bRow, 1, panel, panels.data());
      for (int64_t r = first; r < last; r += chunk) {
        const int64_t here = std::min(chunk, last - r);
        packTiles(a + t * aRow + r, aRow, now, here, left.data());
        for (int64_t at = 0; at < here; at += tileRows) {
          float* to = y + (r + at) * columns;
          run({left.data() + at * now, 0, panels.data(), std::min(tileRows, here - at), now, columns, to, columns, t == 0 ? nullptr : to, columns});
        }
      }
    }
  });
}

}  // namespace product
