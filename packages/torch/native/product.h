// Products with a matrix that was laid out for them: float32 on x86, for the sizes that small models have, where a general BLAS
// loses much of its time before and after the sums. Every output is one sum in the order of the inner dimension, whatever the
// rows beside it and the number of threads: a row's result depends on nothing but the row.
#pragma once
#include <cstdint>

namespace product {

// Columns of a panel. A matrix [inner, columns] is laid out as [columns / 32][inner][32], with zeros beyond the last column.
constexpr int64_t panelWidth = 32;
// Rows that are summed at once.
constexpr int64_t tileRows = 12;

inline int64_t panelsOf(int64_t columns) { return (columns + panelWidth - 1) / panelWidth; }
inline int64_t packedSize(int64_t inner, int64_t columns) { return panelsOf(columns) * panelWidth * inner; }

// y[r, c] = start[r, c] + sum over k of a[r, k] * b[k, c]
struct Task {
  const float* a;
  int64_t aRow;  // distance between rows whose terms lie side by side; 0: up to twelve rows lie side by side, see aInner
  const float* panels;
  int64_t rows, inner, columns;
  float* y;
  int64_t yRow;
  const float* start = nullptr;  // null: zero; a bias: startRow = 0; y itself adds to what is there
  int64_t startRow = 0;
  int64_t panelInner = 0;  // terms that a panel holds, where only some of them are summed
  int64_t aInner = tileRows;  // with aRow = 0: distance between terms
};

// On this thread.
void run(const Task& task);

// On all threads, where there is enough to do.
void runParallel(const Task& task);

// The panels of a matrix [inner, columns] whose elements stand `innerStride` and `columnStride` apart; one of them must be 1.
void pack(const float* matrix, int64_t inner, int64_t columns, int64_t innerStride, int64_t columnStride, float* panels);

// The same on this thread.
void packHere(const float* matrix, int64_t inner, int64_t columns, int64_t innerStride, int64_t columnStride, float* panels);

// Rows of terms as columns of the panels of a matrix [inner, columns], from `first` on; what stands before them stays.
void layColumns(const float* rows, int64_t rowStride, int64_t count, int64_t inner, int64_t first, float* panels);

// y [rows, columns] += sum over t of a[t, r] * b[t, c], with b in panels, on this thread; for an a that fits a small cache.
void addOuterHere(const float* a, int64_t aTerm, const float* panels, int64_t terms, int64_t rows, int64_t columns, float* y, int64_t yRow);

// y [rows, columns] = sum over t of a[t, r] * b[t, c]: the gradient of a weight, on all threads.
void outer(const float* a, int64_t aRow, const float* b, int64_t bRow, int64_t terms, int64_t rows, int64_t columns, float* y);

// Whether this machine has the instructions that make the above worth it.
bool isFast();

}  // namespace product
