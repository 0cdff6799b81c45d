// Attention over a key-value cache kept in blocks, on the CPU. libtorch has nothing that reads a block table here.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <vector>

#include "vector-math.h"

namespace {

// The sum as a tree over sixteen lanes: no chain of additions to wait for, and the same order on every machine.
VERLET_INLINE float treeDot(const float* a, const float* b, int64_t n) {
  float partial[16] = {};
  int64_t k = 0;
  for (; k + 16 <= n; k += 16)
    for (int lane = 0; lane < 16; lane++) partial[lane] += a[k + lane] * b[k + lane];
  for (int lane = 0; lane < 8; lane++) partial[lane] += partial[lane + 8];
  for (int lane = 0; lane < 4; lane++) partial[lane] += partial[lane + 4];
  float sum = (partial[0] + partial[2]) + (partial[1] + partial[3]);
  for (; k < n; k++) sum += a[k] * b[k];
  return sum;
}

struct Cache {
  const float* keys;
  const float* values;
  const int32_t* table;
  int64_t blockSize, kvHeads, headDim;
};

// Calls `body(first row, how many, place of the first)` for each run of keys that lie side by side.
template <typename Body>
VERLET_INLINE void forRuns(const Cache& cache, const float* rows, int64_t kvHead, int64_t first, int64_t limit, Body body) {
  const int64_t row = cache.kvHeads * cache.headDim;
  for (int64_t at = first; at < limit;) {
    const int64_t block = at / cache.blockSize, offset = at - block * cache.blockSize;
    const int64_t count = cache.blockSize - offset < limit - at ? cache.blockSize - offset : limit - at;
    body(rows + (static_cast<int64_t>(cache.table[block]) * cache.blockSize + offset) * row + kvHead * cache.headDim, count, at - first);
    at += count;
  }
}

// With `fixed` the size of a head is known to the compiler, which unrolls the inner loops.
template <int64_t fixed>
VERLET_INLINE void attendHeads(const float* query, const Cache& cache, int64_t kvHead, int64_t group, int64_t first, int64_t limit, float scale, float* scores,
                               float* out) {
  const int64_t count = limit - first, dim = fixed ? fixed : cache.headDim, row = cache.kvHeads * dim;
  forRuns(cache, cache.keys, kvHead, first, limit, [&](const float* keys, int64_t n, int64_t place) __attribute__((always_inline)) {
    for (int64_t j = 0; j < n; j++)
      for (int64_t g = 0; g < group; g++) scores[g * count + place + j] = treeDot(query + g * dim, keys + j * row, dim) * scale;
  });
  for (int64_t g = 0; g < group; g++) {
    float* s = scores + g * count;
    float largest = s[0];
    for (int64_t j = 1; j < count; j++) largest = s[j] > largest ? s[j] : largest;
    for (int64_t j = 0; j < count; j++) s[j] = fastExp(s[j] - largest);
    const float inverse = 1.0f / laneSum(s, count);
    for (int64_t j = 0; j < count; j++) s[j] *= inverse;
    for (int64_t d = 0; d < dim; d++) out[g * dim + d] = 0;
  }
  forRuns(cache, cache.values, kvHead, first, limit, [&](const float* values, int64_t n, int64_t place) __attribute__((always_inline)) {
    for (int64_t g = 0; g < group; g++) {
      const float* weight = scores + g * count + place;
      float* __restrict o = out + g * dim;
      int64_t j = 0;
      for (; j + 4 <= n; j += 4) {
        const float *v0 = values + j * row, *v1 = v0 + row, *v2 = v1 + row, *v3 = v2 + row;
        const float w0 = weight[j], w1 = weight[j + 1], w2 = weight[j + 2], w3 = weight[j + 3];
        for (int64_t d = 0; d < dim; d++) o[d] += (w0 * v0[d] + w1 * v1[d]) + (w2 * v2[d] + w3 * v3[d]);
      }
      for (; j < n; j++)
        for (int64_t d = 0; d < dim; d++) o[d] += weight[j] * values[j * row + d];
    }
  });
}

// One query token, one key-value head: `group` query heads that share it. `scores` holds group * (limit - first) floats.
VERLET_CLONES void attendOne(const float* query, const Cache& cache, int64_t kvHead, int64_t group, int64_t first, int64_t limit, float scale, float* scores,
                             float* out) {
  switch (cache.headDim) {
    case 16: return attendHeads<16>(query, cache, kvHead, group, first, limit, scale, scores, out);
    case 32: return attendHeads<32>(query, cache, kvHead, group, first, limit, scale, scores, out);
    case 64: return attendHeads<64>(query, cache, kvHead, group, first, limit, scale, scores, out);
    case 128: return attendHeads<128>(query, cache, kvHead, group, first, limit, scale, scores, out);
    default: return attendHeads<0>(query, cache, kvHead, group, first, limit, scale, scores, out);
  }
}

// store_(keys, values [blocks, blockSize, kvHeads, dim], slot [tokens] int64, k, v [tokens, kvHeads, dim]): each token's keys and
// values go to its slot. index_copy_ does the same forty times as slowly for rows this short.
void store(const at::Tensor& keys, const at::Tensor& values, const at::Tensor& slot, const at::Tensor& k, const at::Tensor& v) {
  TORCH_CHECK(keys.scalar_type() == at::kFloat && values.scalar_type() == at::kFloat, "the CPU cache must be float32");
  TORCH_CHECK(keys.is_contiguous() && values.is_contiguous() && keys.sizes() == values.sizes() && keys.dim() == 4, "the cache must be contiguous, [blocks, size, heads, dim]");
  TORCH_CHECK(slot.scalar_type() == at::kLong && slot.numel() == k.size(0) && k.sizes() == v.sizes(), "there must be one int64 slot for each token");
  auto width = keys.size(2) * keys.size(3), slots = keys.size(0) * keys.size(1), tokens = slot.numel();
  TORCH_CHECK(k.numel() == tokens * width, "keys do not match the cache");
  auto key = k.to(at::kFloat).contiguous(), value = v.to(at::kFloat).contiguous(), to = slot.contiguous();
  const int64_t* at = to.const_data_ptr<int64_t>();
  const float *from = key.const_data_ptr<float>(), *other = value.const_data_ptr<float>();
  float *keyRows = keys.mutable_data_ptr<float>(), *valueRows = values.mutable_data_ptr<float>();
  for (int64_t t = 0; t < tokens; t++) {
    TORCH_CHECK(at[t] >= 0 && at[t] < slots, "slot ", at[t], " is outside the cache of ", slots);
    std::memcpy(keyRows + at[t] * width, from + t * width, width * sizeof(float));
    std::memcpy(valueRows + at[t] * width, other + t * width, width * sizeof(float));
  }
}

// paged_attention(q [tokens, heads, dim], keys and values [blocks, blockSize, kvHeads, dim], table [sequences, maxBlocks] int32,
//   sequence [tokens] int32: row of the table, limit [tokens] int32: keys that the token sees, window: 0 or how many of them)
at::Tensor pagedAttention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& table, const at::Tensor& sequence,
                          const at::Tensor& limit, double scale, int64_t window) {
  TORCH_CHECK(q.dim() == 3 && keys.dim() == 4 && table.dim() == 2, "q must be [tokens, heads, dim], the cache [blocks, size, heads, dim], the table 2-d");
  TORCH_CHECK(keys.scalar_type() == at::kFloat && values.scalar_type() == at::kFloat, "the CPU cache must be float32");
  TORCH_CHECK(table.scalar_type() == at::kInt && sequence.scalar_type() == at::kInt && limit.scalar_type() == at::kInt, "table, sequence and limit must be int32");
  TORCH_CHECK(keys.is_contiguous() && values.is_contiguous() && table.is_contiguous(), "the cache and the table must be contiguous");
  auto tokens = q.size(0), heads = q.size(1), dim = q.size(2), kvHeads = keys.size(2), blockSize = keys.size(1);
  TORCH_CHECK(heads % kvHeads == 0 && keys.size(3) == dim, "heads do not match the cache");
  auto group = heads / kvHeads, maxBlocks = table.size(1), blocks = keys.size(0);
  auto query = q.to(at::kFloat).contiguous();
  auto output = at::empty({tokens, heads, dim}, query.options());
  auto seq = sequence.contiguous(), lim = limit.contiguous();
  const int32_t *rows = seq.const_data_ptr<int32_t>(), *limits = lim.const_data_ptr<int32_t>(), *tables = table.const_data_ptr<int32_t>();
  for (int64_t t = 0; t < tokens; t++) {
    TORCH_CHECK(rows[t] >= 0 && rows[t] < table.size(0), "token ", t, " names a sequence that the table does not have");
    TORCH_CHECK(limits[t] > 0 && limits[t] <= maxBlocks * blockSize, "token ", t, " sees ", limits[t], " keys, the table holds ", maxBlocks * blockSize);
    for (int64_t b = 0; b * blockSize < limits[t]; b++) {
      auto block = tables[rows[t] * maxBlocks + b];
      TORCH_CHECK(block >= 0 && block < blocks, "block ", block, " is outside the cache");
    }
  }
  const float *qs = query.const_data_ptr<float>(), *ks = keys.const_data_ptr<float>(), *vs = values.const_data_ptr<float>();
  float* out = output.mutable_data_ptr<float>();
  at::parallel_for(0, tokens * kvHeads, 8, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t work = begin; work < end; work++) {
      int64_t t = work / kvHeads, kvHead = work % kvHeads, last = limits[t];
      int64_t first = window > 0 && last > window ? last - window : 0;
      scores.resize(group * (last - first));
      Cache cache{ks, vs, tables + rows[t] * maxBlocks, blockSize, kvHeads, dim};
      int64_t offset = (t * heads + kvHead * group) * dim;
      attendOne(qs + offset, cache, kvHead, group, first, last, static_cast<float>(scale), scores.data(), out + offset);
    }
  });
  return output.to(q.scalar_type());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("store_(Tensor(a!) keys, Tensor(b!) values, Tensor slot, Tensor k, Tensor v) -> ()");
  library.def(
      "paged_attention(Tensor q, Tensor keys, Tensor values, Tensor table, Tensor sequence, Tensor limit, float scale, int window) -> Tensor");
  // On CUDA only: the cut of the work, made once per pass, and attention that follows it.
  library.def("attention_plan(Tensor limit, int max_keys) -> (Tensor items, Tensor offsets)");
  library.def(
      "planned_attention(Tensor q, Tensor keys, Tensor values, Tensor table, Tensor sequence, Tensor limit, Tensor items, Tensor offsets, float scale, "
      "int window) -> Tensor");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("paged_attention", pagedAttention);
  library.impl("store_", store);
}
