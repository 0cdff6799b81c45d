// Causal attention of sequences laid end to end, with its gradient, on the CPU. libtorch's own wants padded batches in another
// layout and equal numbers of heads: gathering, repeating and their gradients cost more than the attention of short sequences.
// A sequence may go on from another one (many answers to one prompt, which is there once): it sees that one whole, then itself.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "vector-math.h"

// The BLAS that libtorch was built with; absent where libtorch hides it.
extern "C" __attribute__((weak)) void sgemm_(const char* transA, const char* transB, const int* m, const int* n, const int* k, const float* alpha, const float* a,
                                             const int* lda, const float* b, const int* ldb, const float* beta, float* c, const int* ldc);
// MKL's; returns what was set before.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);

namespace {

// Threads share out whole heads here. Left alone, MKL picks its algorithm by the number of threads it believes it has, and with it
// the rounding.
class OneThreadBlas {
 public:
  OneThreadBlas() : before_(MKL_Set_Num_Threads_Local ? MKL_Set_Num_Threads_Local(1) : 0) {}
  ~OneThreadBlas() {
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(before_);
  }
  OneThreadBlas(const OneThreadBlas&) = delete;

 private:
  int before_;
};

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

// One block of queries of one head, and the keys it sees: the last ones of its prefix, then its own. Columns of the scores are
// these keys in this order, which is the order of their positions.
struct Span {
  int64_t firstRow, rows, firstPrefixKey, prefixKeys, firstKey, ownKeys, begin;
  int64_t keys() const { return prefixKeys + ownKeys; }
  // Keys that row r sees, as a range of columns.
  std::pair<int64_t, int64_t> seen(int64_t r, int64_t prefix, int64_t window) const {
    const int64_t query = prefix + firstRow + r;
    return {window > 0 ? std::max<int64_t>(0, query - window + 1 - begin) : 0, query - begin + 1};
  }
};

Span spanOf(int64_t block, int64_t length, int64_t prefix, int64_t window) {
  const int64_t firstRow = block * blockRows, rows = std::min(blockRows, length - firstRow);
  const int64_t begin = window > 0 ? std::max<int64_t>(0, prefix + firstRow - window + 1) : 0;
  const int64_t firstPrefixKey = std::min(begin, prefix), firstKey = std::max<int64_t>(0, begin - prefix);
  return {firstRow, rows, firstPrefixKey, prefix - firstPrefixKey, firstKey, firstRow + rows - firstKey, begin};
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

struct Sequence {
  int64_t start, length, prefixStart, prefixLength;
};

struct Layout {
  int64_t tokens, heads, kvHeads, dim, group;
  std::vector<Sequence> sequences;
  // A sequence that goes on from no other, with all that go on from it: they share keys.
  std::vector<std::vector<int64_t>> families;
  int64_t pairs = 0;

  Layout(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef lengths, at::IntArrayRef prefixes)
      : tokens(q.size(0)), heads(q.size(1)), kvHeads(k.size(1)), dim(q.size(2)), group(heads / kvHeads) {
    TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3, "q, k and v must be [tokens, heads, dim]");
    TORCH_CHECK(q.scalar_type() == at::kFloat && k.scalar_type() == at::kFloat && v.scalar_type() == at::kFloat, "packed attention on the CPU is float32");
    TORCH_CHECK(heads % kvHeads == 0 && v.size(1) == kvHeads && k.size(2) == dim && v.size(2) == dim, "q, k and v do not match");
    TORCH_CHECK(k.size(0) == tokens && v.size(0) == tokens, "q, k and v have different numbers of tokens");
    const int64_t count = lengths.size();
    TORCH_CHECK(prefixes.empty() || static_cast<int64_t>(prefixes.size()) == count, "there are ", count, " lengths and ", prefixes.size(), " prefixes");
    std::vector<int64_t> family(count);
    int64_t at = 0;
    for (int64_t s = 0; s < count; s++) {
      const int64_t length = lengths[s], prefix = prefixes.empty() ? -1 : prefixes[s];
      TORCH_CHECK(length >= 0, "a sequence cannot have ", length, " tokens");
      TORCH_CHECK(prefix < s && (prefix < 0 || prefixes[prefix] < 0), "sequence ", s, " cannot go on from ", prefix, ": only from one before it that goes on from no other");
      if (prefix < 0) {
        family[s] = families.size();
        families.emplace_back();
        sequences.push_back({at, length, at, 0});
      } else {
        family[s] = family[prefix];
        sequences.push_back({at, length, sequences[prefix].start, sequences[prefix].length});
      }
      families[family[s]].push_back(s);
      pairs += length * (length + sequences[s].prefixLength);
      at += length;
    }
    TORCH_CHECK(at == tokens, "the lengths add up to ", at, " tokens, q has ", tokens);
  }
  // Pieces of work of mean size that are worth a thread: short prompts of small models are not.
  int64_t piecesPerThread(int64_t pieces) const { return std::max<int64_t>(1, 400000 * pieces / (pairs * heads * dim + 1)); }
};

at::Tensor rowsOf(const at::Tensor& x) { return x.stride(2) == 1 && x.stride(0) > 0 && x.stride(1) > 0 ? x : x.contiguous(); }

// Room for the scores of a block. BLAS rounds differently for differently aligned matrices: aligned, results do not depend on which
// thread works where.
class Scratch {
 public:
  float* room(int64_t count) {
    if (count > size_) {
      size_ = (count + 4095) / 4096 * 4096;
      data_.reset(static_cast<float*>(std::aligned_alloc(64, size_ * sizeof(float))));
      TORCH_CHECK(data_, "no memory for ", size_, " attention scores");
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
  int64_t size_ = 0;
};

// One head of keys or values, from a token on.
struct Rows {
  const float* data;
  int64_t stride;
  Rows(const at::Tensor& x, int64_t head) : data(x.const_data_ptr<float>() + head * x.stride(1)), stride(x.stride(0)) {}
  Matrix from(int64_t token, bool transposed) const { return {data + token * stride, stride, transposed}; }
};

// scores [rows, keys] = x (of the span's rows) times the seen keys (or values), transposed
void againstKeys(const Matrix& x, const Rows& keys, const Sequence& own, const Span& span, int64_t dim, float* scores) {
  const int64_t columns = span.keys();
  multiply(x, keys.from(own.prefixStart + span.firstPrefixKey, true), span.rows, span.prefixKeys, dim, scores, columns, false);
  multiply(x, keys.from(own.start + span.firstKey, true), span.rows, span.ownKeys, dim, scores + span.prefixKeys, columns, false);
}

// out [rows, dim] = scores times the seen values (or keys)
void mixRows(const float* scores, const Rows& values, const Sequence& own, const Span& span, int64_t dim, float* out, int64_t stride) {
  const int64_t columns = span.keys();
  multiply({scores + span.prefixKeys, columns, false}, values.from(own.start + span.firstKey, false), span.rows, dim, span.ownKeys, out, stride, false);
  if (span.prefixKeys > 0)
    multiply({scores, columns, false}, values.from(own.prefixStart + span.firstPrefixKey, false), span.rows, dim, span.prefixKeys, out, stride, true);
}

// The gradient of the seen keys (or values) += scores, transposed, times x
void addToKeys(const float* scores, const Matrix& x, const Sequence& own, const Span& span, int64_t dim, float* gradient, int64_t stride) {
  const int64_t columns = span.keys();
  multiply({scores, columns, true}, x, span.prefixKeys, dim, span.rows, gradient + (own.prefixStart + span.firstPrefixKey) * stride, stride, true);
  multiply({scores + span.prefixKeys, columns, true}, x, span.ownKeys, dim, span.rows, gradient + (own.start + span.firstKey) * stride, stride, true);
}

// packed_attention(q [tokens, heads, dim], k, v [tokens, kvHeads, dim], lengths, scale, window: 0 or how many keys back,
//   prefixes: for each sequence the number of the one it goes on from or -1; none when no sequence does)
//   -> ([tokens, heads, dim], log of the softmax's normalizer [heads, tokens])
std::tuple<at::Tensor, at::Tensor> packedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef lengths, double scale,
                                                   int64_t window, at::IntArrayRef prefixes) {
  Layout at(q, k, v, lengths, prefixes);
  auto qs = rowsOf(q), ks = rowsOf(k), vs = rowsOf(v);
  auto output = at::empty({at.tokens, at.heads, at.dim}, q.options());
  auto normalizers = at::empty({at.heads, at.tokens}, q.options());
  float *out = output.mutable_data_ptr<float>(), *logs = normalizers.mutable_data_ptr<float>();
  const int64_t pieces = at.sequences.size() * at.heads, row = at.heads * at.dim;
  at::parallel_for(0, pieces, at.piecesPerThread(pieces), [&](int64_t begin, int64_t end) {
    OneThreadBlas guard;
    Scratch scratch;
    for (int64_t work = begin; work < end; work++) {
      const int64_t head = work % at.heads;
      const Sequence& own = at.sequences[work / at.heads];
      const Rows query(qs, head), key(ks, head / at.group), value(vs, head / at.group);
      for (int64_t block = 0; block * blockRows < own.length; block++) {
        const auto span = spanOf(block, own.length, own.prefixLength, window);
        const int64_t first = own.start + span.firstRow, columns = span.keys();
        float* scores = scratch.room(span.rows * columns);
        againstKeys(query.from(first, false), key, own, span, at.dim, scores);
        for (int64_t r = 0; r < span.rows; r++) {
          const auto [from, to] = span.seen(r, own.prefixLength, window);
          softmaxRow(scores + r * columns, from, to, columns, scale, logs + head * at.tokens + first + r);
        }
        mixRows(scores, value, own, span, at.dim, out + first * row + head * at.dim, row);
      }
    }
  });
  return {output, normalizers};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> packedAttentionBackward(const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                                       const at::Tensor& output, const at::Tensor& normalizers, at::IntArrayRef lengths, double scale,
                                                                       int64_t window, at::IntArrayRef prefixes) {
  Layout at(q, k, v, lengths, prefixes);
  auto qs = rowsOf(q), ks = rowsOf(k), vs = rowsOf(v), gs = gradient.contiguous(), os = output.contiguous();
  // Keys may go unseen only in sequences of no tokens, so every row of the three is written.
  auto gradQ = at::empty({at.tokens, at.heads, at.dim}, q.options());
  auto gradK = at::empty({at.tokens, at.kvHeads, at.dim}, q.options()), gradV = at::empty_like(gradK);
  const float *out = os.const_data_ptr<float>(), *logs = normalizers.const_data_ptr<float>();
  float *toQ = gradQ.mutable_data_ptr<float>(), *toK = gradK.mutable_data_ptr<float>(), *toV = gradV.mutable_data_ptr<float>();
  const int64_t row = at.heads * at.dim, kvRow = at.kvHeads * at.dim, pieces = at.families.size() * at.kvHeads;
  // A family at a time: whoever adds to the gradient of its shared keys does so in the same order, whatever the threads.
  at::parallel_for(0, pieces, at.piecesPerThread(pieces), [&](int64_t begin, int64_t end) {
    OneThreadBlas guard;
    Scratch forScores, forSlopes;
    for (int64_t work = begin; work < end; work++) {
      const int64_t kvHead = work % at.kvHeads;
      const auto& family = at.families[work / at.kvHeads];
      const Rows key(ks, kvHead), value(vs, kvHead);
      float *keyGradient = toK + kvHead * at.dim, *valueGradient = toV + kvHead * at.dim;
      for (const int64_t s : family)
        for (int64_t t = at.sequences[s].start; t < at.sequences[s].start + at.sequences[s].length; t++)
          for (int64_t d = 0; d < at.dim; d++) keyGradient[t * kvRow + d] = valueGradient[t * kvRow + d] = 0;
      for (const int64_t s : family) {
        const Sequence& own = at.sequences[s];
        for (int64_t head = kvHead * at.group; head < (kvHead + 1) * at.group; head++)
          for (int64_t block = 0; block * blockRows < own.length; block++) {
            const auto span = spanOf(block, own.length, own.prefixLength, window);
            const int64_t first = own.start + span.firstRow, columns = span.keys();
            float *scores = forScores.room(span.rows * columns), *slopes = forSlopes.room(span.rows * columns);
            const Matrix query = Rows(qs, head).from(first, false), incoming = Rows(gs, head).from(first, false);
            againstKeys(query, key, own, span, at.dim, scores);
            againstKeys(incoming, value, own, span, at.dim, slopes);
            for (int64_t r = 0; r < span.rows; r++) {
              const auto [from, to] = span.seen(r, own.prefixLength, window);
              const float delta = rowDot(incoming.data + r * row, out + (first + r) * row + head * at.dim, at.dim);
              backwardRow(scores + r * columns, slopes + r * columns, from, to, columns, scale, logs[head * at.tokens + first + r], delta);
            }
            mixRows(slopes, key, own, span, at.dim, toQ + first * row + head * at.dim, row);
            addToKeys(slopes, query, own, span, at.dim, keyGradient, kvRow);
            addToKeys(scores, incoming, own, span, at.dim, valueGradient, kvRow);
          }
      }
    }
  });
  return {gradQ, gradK, gradV};
}

struct PackedAttentionFunction : torch::autograd::Function<PackedAttentionFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                at::IntArrayRef lengths, double scale, int64_t window, at::IntArrayRef prefixes) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [output, normalizers] = packedAttention(q, k, v, lengths, scale, window, prefixes);
    context->save_for_backward({q, k, v, output, normalizers});
    context->saved_data["lengths"] = lengths.vec();
    context->saved_data["scale"] = scale;
    context->saved_data["window"] = window;
    context->saved_data["prefixes"] = prefixes.vec();
    context->mark_non_differentiable({normalizers});
    return {output, normalizers};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    auto [q, k, v] = packedAttentionBackward(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], context->saved_data["lengths"].toIntVector(),
                                             context->saved_data["scale"].toDouble(), context->saved_data["window"].toInt(),
                                             context->saved_data["prefixes"].toIntVector());
    return {q, k, v, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

std::tuple<at::Tensor, at::Tensor> packedAttentionAutograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef lengths, double scale,
                                                           int64_t window, at::IntArrayRef prefixes) {
  auto results = PackedAttentionFunction::apply(q, k, v, lengths, scale, window, prefixes);
  return {results[0], results[1]};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("packed_attention(Tensor q, Tensor k, Tensor v, int[] lengths, float scale, int window, int[] prefixes=[]) -> (Tensor output, Tensor normalizers)");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) { library.impl("packed_attention", packedAttention); }

TORCH_LIBRARY_IMPL(verlet, AutogradCPU, library) { library.impl("packed_attention", packedAttentionAutograd); }
