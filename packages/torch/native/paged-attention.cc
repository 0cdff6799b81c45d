// Attention over a key-value cache kept in blocks, on the CPU. libtorch has nothing that reads a block table here.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VERLET_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VERLET_CLONES
#endif

constexpr int64_t lanes = 16;

// Sixteen partial sums: the compiler may keep them in vector registers without reordering the additions of any one of them.
inline float dot(const float* __restrict a, const float* __restrict b, int64_t n) {
  float partial[lanes] = {};
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes)
    for (int64_t lane = 0; lane < lanes; lane++) partial[lane] += a[k + lane] * b[k + lane];
  float sum = 0;
  for (float value : partial) sum += value;
  for (; k < n; k++) sum += a[k] * b[k];
  return sum;
}

struct Cache {
  const float* keys;
  const float* values;
  const int32_t* table;
  int64_t blockSize, kvHeads, headDim;
};

// One query token, one key-value head: `group` query heads that share it. `scores` holds group * (limit - first) floats.
VERLET_CLONES void attendOne(const float* query, const Cache& cache, int64_t kvHead, int64_t group, int64_t first, int64_t limit, float scale,
                             float* scores, float* out) {
  const int64_t count = limit - first, dim = cache.headDim, row = cache.kvHeads * dim;
  for (int64_t j = 0; j < count; j++) {
    const int64_t at = first + j;
    const float* key = cache.keys + (static_cast<int64_t>(cache.table[at / cache.blockSize]) * cache.blockSize + at % cache.blockSize) * row + kvHead * dim;
    for (int64_t g = 0; g < group; g++) scores[g * count + j] = dot(query + g * dim, key, dim) * scale;
  }
  for (int64_t g = 0; g < group; g++) {
    float* s = scores + g * count;
    float largest = s[0];
    for (int64_t j = 1; j < count; j++) largest = s[j] > largest ? s[j] : largest;
    float sum = 0;
    for (int64_t j = 0; j < count; j++) {
      s[j] = std::exp(s[j] - largest);
      sum += s[j];
    }
    const float inverse = 1.0f / sum;
    for (int64_t j = 0; j < count; j++) s[j] *= inverse;
    for (int64_t d = 0; d < dim; d++) out[g * dim + d] = 0;
  }
  for (int64_t j = 0; j < count; j++) {
    const int64_t at = first + j;
    const float* value = cache.values + (static_cast<int64_t>(cache.table[at / cache.blockSize]) * cache.blockSize + at % cache.blockSize) * row + kvHead * dim;
    for (int64_t g = 0; g < group; g++) {
      const float weight = scores[g * count + j];
      float* o = out + g * dim;
      for (int64_t d = 0; d < dim; d++) o[d] += weight * value[d];
    }
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
  library.def(
      "paged_attention(Tensor q, Tensor keys, Tensor values, Tensor table, Tensor sequence, Tensor limit, float scale, int window) -> Tensor");
  // On CUDA only: the cut of the work, made once per pass, and attention that follows it.
  library.def("attention_plan(Tensor limit, int max_keys) -> (Tensor items, Tensor offsets)");
  library.def(
      "planned_attention(Tensor q, Tensor keys, Tensor values, Tensor table, Tensor sequence, Tensor limit, Tensor items, Tensor offsets, float scale, "
      "int window) -> Tensor");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) { library.impl("paged_attention", pagedAttention); }
