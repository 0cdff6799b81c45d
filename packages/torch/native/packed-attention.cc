// Causal attention of sequences laid end to end, with its gradient, on the CPU. libtorch's own wants padded batches in another
// layout and equal numbers of heads: gathering, repeating and their gradients cost more than the attention of short sequences.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "vector-math.h"

// The BLAS that libtorch was built with; absent where libtorch hides it.
extern "C" __attribute__((weak)) void sgemm_(const char* transA, const char* transB, const int* m, const int* n, const int* k, const float* alpha, const float* a,
                                             const int* lda, const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace {

// Queries per block: scores of a block stay in the second-level cache, and keys behind the block's last query are never touched.
constexpr int64_t blockRows = 64;

struct Matrix {
  const float* data;
  int64_t stride;  // between rows
  bool transposed;
};

// c [m, n] = a b, or c += a b. All row-major; `transposed` reads the stored matrix the other way round.
void multiply(const Matrix& a, const Matrix& b, int64_t m, int64_t n, int64_t k, float* c, int64_t stride, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (sgemm_) {
    const int rows = m, columns = n, inner = k, lda = a.stride, ldb = b.stride, ldc = stride;
    const float one = 1, beta = accumulate ? 1 : 0;
    // Column-major BLAS sees every matrix transposed: c' = b' a'.
    sgemm_(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &columns, &rows, &inner, &one, b.data, &ldb, a.data, &lda, &beta, c, &ldc);
    return;
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  auto view = [](const Matrix& x, int64_t rows, int64_t columns) {
    return at::from_blob(const_cast<float*>(x.data), {rows, columns}, x.transposed ? at::IntArrayRef{1, x.stride} : at::IntArrayRef{x.stride, 1}, at::kFloat);
  };
  auto result = at::from_blob(c, {m, n}, {stride, 1}, at::kFloat);
  if (accumulate)
    result.addmm_(view(a, m, k), view(b, k, n));
  else
    at::mm_out(result, view(a, m, k), view(b, k, n));
}

// One block of queries of one head: which keys it sees.
struct Span {
  int64_t firstRow, rows, firstKey, keys;
};

Span spanOf(int64_t block, int64_t length, int64_t window) {
  const int64_t firstRow = block * blockRows, rows = std::min(blockRows, length - firstRow);
  const int64_t firstKey = window > 0 ? std::max<int64_t>(0, firstRow - window + 1) : 0;
  return {firstRow, rows, firstKey, firstRow + rows - firstKey};
}

// Keys that row r of the span sees, as a range of its columns.
inline std::pair<int64_t, int64_t> seen(const Span& span, int64_t r, int64_t window) {
  const int64_t query = span.firstRow + r, end = query - span.firstKey + 1;
  const int64_t begin = window > 0 ? std::max<int64_t>(0, query - window + 1 - span.firstKey) : 0;
  return {begin, end};
}

VERLET_CLONES void softmaxRow(float* row, int64_t begin, int64_t end, int64_t columns, float scale, float* logNormalizer) {
  float largest = row[begin];
  for (int64_t j = begin; j < end; j++) largest = row[j] > largest ? row[j] : largest;
  const float shift = largest * scale;
  for (int64_t j = begin; j < end; j++) row[j] = fastExp(row[j] * scale - shift);
  const float sum = laneSum(row + begin, end - begin), inverse = 1 / sum;
  for (int64_t j = begin; j < end; j++) row[j] *= inverse;
  for (int64_t j = 0; j < begin; j++) row[j] = 0;
  for (int64_t j = end; j < columns; j++) row[j] = 0;
  *logNormalizer = shift + std::log(sum);
}

// Probabilities again from the kept normalizer, and the gradient of the scores in place of that of the probabilities.
VERLET_CLONES void backwardRow(float* scores, float* gradient, int64_t begin, int64_t end, int64_t columns, float scale, float logNormalizer, float delta) {
  for (int64_t j = begin; j < end; j++) {
    const float p = fastExp(scores[j] * scale - logNormalizer);
    scores[j] = p;
    gradient[j] = p * (gradient[j] - delta) * scale;
  }
  for (int64_t j = 0; j < begin; j++) scores[j] = gradient[j] = 0;
  for (int64_t j = end; j < columns; j++) scores[j] = gradient[j] = 0;
}

VERLET_CLONES float rowDot(const float* a, const float* b, int64_t n) { return laneDot(a, b, n); }

struct Layout {
  int64_t tokens, heads, kvHeads, dim, group, sequences;
  std::vector<int64_t> starts;
  Layout(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef lengths)
      : tokens(q.size(0)), heads(q.size(1)), kvHeads(k.size(1)), dim(q.size(2)), group(heads / kvHeads), sequences(lengths.size()) {
    TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3, "q, k and v must be [tokens, heads, dim]");
    TORCH_CHECK(q.scalar_type() == at::kFloat && k.scalar_type() == at::kFloat && v.scalar_type() == at::kFloat, "packed attention on the CPU is float32");
    TORCH_CHECK(heads % kvHeads == 0 && v.size(1) == kvHeads && k.size(2) == dim && v.size(2) == dim, "q, k and v do not match");
    TORCH_CHECK(k.size(0) == tokens && v.size(0) == tokens, "q, k and v have different numbers of tokens");
    starts.push_back(0);
    for (auto length : lengths) {
      TORCH_CHECK(length >= 0, "a sequence cannot have ", length, " tokens");
      starts.push_back(starts.back() + length);
    }
    TORCH_CHECK(starts.back() == tokens, "the lengths add up to ", starts.back(), " tokens, q has ", tokens);
  }
  // Heads of a sequence of mean length that are worth a thread: short prompts of small models are not.
  int64_t headsPerThread() const {
    const int64_t length = sequences > 0 ? tokens / sequences + 1 : 1, work = length * length * dim;
    return std::max<int64_t>(1, 400000 / work);
  }
};

at::Tensor rowsOf(const at::Tensor& x) { return x.stride(2) == 1 && x.stride(0) > 0 && x.stride(1) > 0 ? x : x.contiguous(); }

// packed_attention(q [tokens, heads, dim], k, v [tokens, kvHeads, dim], lengths, scale, window: 0 or how many keys back)
//   -> ([tokens, heads, dim], log of the softmax's normalizer [heads, tokens])
std::tuple<at::Tensor, at::Tensor> packedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef lengths, double scale,
                                                   int64_t window) {
  Layout at(q, k, v, lengths);
  auto qs = rowsOf(q), ks = rowsOf(k), vs = rowsOf(v);
  auto output = at::empty({at.tokens, at.heads, at.dim}, q.options());
  auto normalizers = at::empty({at.heads, at.tokens}, q.options());
  const float *queries = qs.const_data_ptr<float>(), *keys = ks.const_data_ptr<float>(), *values = vs.const_data_ptr<float>();
  float *out = output.mutable_data_ptr<float>(), *logs = normalizers.mutable_data_ptr<float>();
  at::parallel_for(0, at.sequences * at.heads, at.headsPerThread(), [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t work = begin; work < end; work++) {
      const int64_t sequence = work / at.heads, head = work % at.heads, start = at.starts[sequence], length = lengths[sequence];
      const float* query = queries + start * qs.stride(0) + head * qs.stride(1);
      const float* key = keys + start * ks.stride(0) + head / at.group * ks.stride(1);
      const float* value = values + start * vs.stride(0) + head / at.group * vs.stride(1);
      for (int64_t block = 0; block * blockRows < length; block++) {
        const auto span = spanOf(block, length, window);
        scores.resize(std::max<size_t>(scores.size(), span.rows * span.keys));
        multiply({query + span.firstRow * qs.stride(0), qs.stride(0), false}, {key + span.firstKey * ks.stride(0), ks.stride(0), true}, span.rows, span.keys, at.dim,
                 scores.data(), span.keys, false);
        for (int64_t r = 0; r < span.rows; r++) {
          const auto [from, to] = seen(span, r, window);
          softmaxRow(scores.data() + r * span.keys, from, to, span.keys, scale, logs + head * at.tokens + start + span.firstRow + r);
        }
        multiply({scores.data(), span.keys, false}, {value + span.firstKey * vs.stride(0), vs.stride(0), false}, span.rows, at.dim, span.keys,
                 out + (start + span.firstRow) * at.heads * at.dim + head * at.dim, at.heads * at.dim, false);
      }
    }
  });
  return {output, normalizers};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> packedAttentionBackward(const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                                       const at::Tensor& output, const at::Tensor& normalizers, at::IntArrayRef lengths, double scale,
                                                                       int64_t window) {
  Layout at(q, k, v, lengths);
  auto qs = rowsOf(q), ks = rowsOf(k), vs = rowsOf(v), gs = gradient.contiguous(), os = output.contiguous();
  // Keys may go unseen only in sequences of no tokens, so every row of the three is written.
  auto gradQ = at::empty({at.tokens, at.heads, at.dim}, q.options());
  auto gradK = at::empty({at.tokens, at.kvHeads, at.dim}, q.options()), gradV = at::empty_like(gradK);
  const float *queries = qs.const_data_ptr<float>(), *keys = ks.const_data_ptr<float>(), *values = vs.const_data_ptr<float>();
  const float *outer = gs.const_data_ptr<float>(), *out = os.const_data_ptr<float>(), *logs = normalizers.const_data_ptr<float>();
  float *toQ = gradQ.mutable_data_ptr<float>(), *toK = gradK.mutable_data_ptr<float>(), *toV = gradV.mutable_data_ptr<float>();
  const int64_t row = at.heads * at.dim, kvRow = at.kvHeads * at.dim;
  at::parallel_for(0, at.sequences * at.kvHeads, at.headsPerThread(), [&](int64_t begin, int64_t end) {
    std::vector<float> scores, slopes;
    for (int64_t work = begin; work < end; work++) {
      const int64_t sequence = work / at.kvHeads, kvHead = work % at.kvHeads, start = at.starts[sequence], length = lengths[sequence];
      const float* key = keys + start * ks.stride(0) + kvHead * ks.stride(1);
      const float* value = values + start * vs.stride(0) + kvHead * vs.stride(1);
      float *keyGradient = toK + start * kvRow + kvHead * at.dim, *valueGradient = toV + start * kvRow + kvHead * at.dim;
      for (int64_t t = 0; t < length; t++)
        for (int64_t d = 0; d < at.dim; d++) keyGradient[t * kvRow + d] = valueGradient[t * kvRow + d] = 0;
      for (int64_t head = kvHead * at.group; head < (kvHead + 1) * at.group; head++)
        for (int64_t block = 0; block * blockRows < length; block++) {
          const auto span = spanOf(block, length, window);
          const int64_t first = start + span.firstRow, size = span.rows * span.keys;
          scores.resize(std::max<size_t>(scores.size(), size));
          slopes.resize(std::max<size_t>(slopes.size(), size));
          const Matrix query{queries + first * qs.stride(0) + head * qs.stride(1), qs.stride(0), false}, incoming{outer + first * row + head * at.dim, row, false};
          const float *spanKeys = key + span.firstKey * ks.stride(0), *spanValues = value + span.firstKey * vs.stride(0);
          multiply(query, {spanKeys, ks.stride(0), true}, span.rows, span.keys, at.dim, scores.data(), span.keys, false);
          multiply(incoming, {spanValues, vs.stride(0), true}, span.rows, span.keys, at.dim, slopes.data(), span.keys, false);
          for (int64_t r = 0; r < span.rows; r++) {
            const auto [from, to] = seen(span, r, window);
            const float delta = rowDot(incoming.data + r * row, out + (first + r) * row + head * at.dim, at.dim);
            backwardRow(scores.data() + r * span.keys, slopes.data() + r * span.keys, from, to, span.keys, scale, logs[head * at.tokens + first + r], delta);
          }
          multiply({slopes.data(), span.keys, false}, {spanKeys, ks.stride(0), false}, span.rows, at.dim, span.keys, toQ + first * row + head * at.dim, row, false);
          multiply({slopes.data(), span.keys, true}, query, span.keys, at.dim, span.rows, keyGradient + span.firstKey * kvRow, kvRow, true);
          multiply({scores.data(), span.keys, true}, incoming, span.keys, at.dim, span.rows, valueGradient + span.firstKey * kvRow, kvRow, true);
        }
    }
  });
  return {gradQ, gradK, gradV};
}

struct PackedAttentionFunction : torch::autograd::Function<PackedAttentionFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                at::IntArrayRef lengths, double scale, int64_t window) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [output, normalizers] = packedAttention(q, k, v, lengths, scale, window);
    context->save_for_backward({q, k, v, output, normalizers});
    context->saved_data["lengths"] = lengths.vec();
    context->saved_data["scale"] = scale;
    context->saved_data["window"] = window;
    context->mark_non_differentiable({normalizers});
    return {output, normalizers};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    auto [q, k, v] = packedAttentionBackward(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], context->saved_data["lengths"].toIntVector(),
                                             context->saved_data["scale"].toDouble(), context->saved_data["window"].toInt());
    return {q, k, v, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

std::tuple<at::Tensor, at::Tensor> packedAttentionAutograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef lengths, double scale,
                                                           int64_t window) {
  auto results = PackedAttentionFunction::apply(q, k, v, lengths, scale, window);
  return {results[0], results[1]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("packed_attention(Tensor q, Tensor k, Tensor v, int[] lengths, float scale, int window) -> (Tensor output, Tensor normalizers)");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) { library.impl("packed_attention", packedAttention); }

TORCH_LIBRARY_IMPL(verlet, AutogradCPU, library) { library.impl("packed_attention", packedAttentionAutograd); }
