// Attention over a key-value cache kept in blocks, on the CPU. libtorch has nothing that reads a block table here.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <vector>

#include "paged-heads.h"

namespace {

VERLET_CLONES void attendOne(const float* query, const paged::Cache& cache, int64_t heads, int64_t first, int64_t last, float scale, float* scores, float* out) {
  paged::attend(query, cache, heads, first, last, scale, scores, out);
}

void checkCache(const at::Tensor& keys, const at::Tensor& values) {
  TORCH_CHECK(keys.scalar_type() == at::kFloat && values.scalar_type() == at::kFloat, "the CPU cache must be float32");
  TORCH_CHECK(keys.dim() == 4 && values.dim() == 4 && keys.is_contiguous() && values.is_contiguous(), "the cache must be contiguous, with four dimensions");
  TORCH_CHECK(keys.size(0) == values.size(0) && keys.size(1) == values.size(2) && keys.size(2) == values.size(3) && keys.size(3) == values.size(1),
              "on the CPU the keys must be [blocks, heads, dim, size] and the values [blocks, size, heads, dim]");
}

// store_(keys [blocks, kvHeads, dim, blockSize], values [blocks, blockSize, kvHeads, dim], slot [tokens] int64, k, v [tokens, kvHeads,
// dim]): each token's keys and values go to its slot. index_copy_ does the same forty times as slowly for rows this short.
void store(const at::Tensor& keys, const at::Tensor& values, const at::Tensor& slot, const at::Tensor& k, const at::Tensor& v) {
  checkCache(keys, values);
  TORCH_CHECK(slot.scalar_type() == at::kLong && slot.numel() == k.size(0) && k.sizes() == v.sizes(), "there must be one int64 slot for each token");
  auto blockSize = values.size(1), kvHeads = values.size(2), dim = values.size(3);
  auto width = kvHeads * dim, slots = keys.size(0) * blockSize, tokens = slot.numel();
  TORCH_CHECK(k.numel() == tokens * width, "keys do not match the cache");
  auto key = k.to(at::kFloat).contiguous(), value = v.to(at::kFloat).contiguous(), to = slot.contiguous();
  const int64_t* at = to.const_data_ptr<int64_t>();
  const float *from = key.const_data_ptr<float>(), *other = value.const_data_ptr<float>();
  float *keyRows = keys.mutable_data_ptr<float>(), *valueRows = values.mutable_data_ptr<float>();
  for (int64_t t = 0; t < tokens; t++) {
    TORCH_CHECK(at[t] >= 0 && at[t] < slots, "slot ", at[t], " is outside the cache of ", slots);
    paged::storeToken(from + t * width, other + t * width, at[t], blockSize, kvHeads, dim, keyRows, valueRows);
  }
}

// paged_attention(q [tokens, heads, dim], keys and values as above, table [sequences, maxBlocks] int32,
//   sequence [tokens] int32: row of the table, limit [tokens] int32: keys that the token sees, window: 0 or how many of them)
at::Tensor pagedAttention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& table, const at::Tensor& sequence,
                          const at::Tensor& limit, double scale, int64_t window) {
  TORCH_CHECK(q.dim() == 3 && table.dim() == 2, "q must be [tokens, heads, dim], the table 2-d");
  checkCache(keys, values);
  TORCH_CHECK(table.scalar_type() == at::kInt && sequence.scalar_type() == at::kInt && limit.scalar_type() == at::kInt, "table, sequence and limit must be int32");
  TORCH_CHECK(table.is_contiguous(), "the table must be contiguous");
  auto tokens = q.size(0), heads = q.size(1), dim = q.size(2), kvHeads = values.size(2), blockSize = values.size(1);
  TORCH_CHECK(kvHeads > 0 && heads % kvHeads == 0 && values.size(3) == dim, "heads do not match the cache");
  TORCH_CHECK(sequence.numel() == tokens && limit.numel() == tokens, "there must be a sequence and a limit for each token");
  auto maxBlocks = table.size(1), blocks = keys.size(0);
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
  at::parallel_for(0, tokens, 2, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t t = begin; t < end; t++) {
      const int64_t last = limits[t], first = window > 0 && last > window ? last - window : 0;
      scores.resize(std::max<size_t>(scores.size(), paged::scoresOf(heads, first, last, blockSize)));
      paged::Cache cache{ks, vs, tables + rows[t] * maxBlocks, blockSize, kvHeads, dim};
      attendOne(qs + t * heads * dim, cache, heads, first, last, static_cast<float>(scale), scores.data(), out + t * heads * dim);
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
