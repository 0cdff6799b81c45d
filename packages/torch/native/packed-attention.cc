// Causal attention of sequences laid end to end, with its gradient, on the CPU. libtorch's own wants padded batches in another
// layout and equal numbers of heads: gathering, repeating and their gradients cost more than the attention of short sequences.
// A sequence may go on from another one (many answers to one prompt, which is there once): it sees that one whole, then itself.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "product.h"
#include "vector-math.h"

namespace {

// Queries per block: its scores stay in the second-level cache, and keys behind the block's last query are hardly touched.
constexpr int64_t blockRows = 48;

// One block of queries of one head, and the keys it sees: the last ones of its prefix, then its own. Columns of the scores are
// these keys in this order, which is the order of their positions.
struct Span {
  int64_t firstRow, rows, firstPrefixKey, prefixKeys, firstKey, ownKeys, begin;
  int64_t keys() const { return prefixKeys + ownKeys; }
  // Length of a row of scores, in whole vectors.
  int64_t columns() const { return (keys() + 15) / 16 * 16; }
  // Keys that row r sees, as a range of columns.
  std::pair<int64_t, int64_t> seen(int64_t r, int64_t prefix, int64_t window) const {
    const int64_t query = prefix + firstRow + r;
    return {window > 0 ? std::max<int64_t>(0, query - window + 1 - begin) : 0, query - begin + 1};
  }
};

// A window that begins within a panel of keys takes the panel whole.
Span spanOf(int64_t block, int64_t length, int64_t prefix, int64_t window) {
  const int64_t firstRow = block * blockRows, rows = std::min(blockRows, length - firstRow);
  const int64_t wanted = window > 0 ? std::max<int64_t>(0, prefix + firstRow - window + 1) : 0;
  const auto panelBegin = [](int64_t key) { return key / product::panelWidth * product::panelWidth; };
  const int64_t firstPrefixKey = wanted < prefix ? panelBegin(wanted) : prefix, firstKey = wanted < prefix ? 0 : panelBegin(wanted - prefix);
  return {firstRow, rows, firstPrefixKey, prefix - firstPrefixKey, firstKey, firstRow + rows - firstKey, firstPrefixKey + firstKey};
}

// Rows are worked on whole, in vectors of sixteen: what is not seen is computed too and put aside, which is cheaper than ends.
VERLET_CLONES void softmaxRow(float* row, int32_t begin, int32_t end, int32_t columns, float scale, float* logNormalizer) {
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
  const float sum = foldSum(sums), inverse = 1 / sum;
  for (int32_t j = 0; j < columns; j++) row[j] *= inverse;
  *logNormalizer = shift + std::log(sum);
}

// Probabilities again from the kept normalizer, and the gradient of the scores in place of that of the probabilities.
VERLET_CLONES void backwardRow(float* scores, float* gradient, int32_t begin, int32_t end, int32_t columns, float scale, float logNormalizer, float delta) {
  for (int32_t j = 0; j < columns; j++) {
    const bool isSeen = j >= begin && j < end;
    const float p = fastExp(scores[j] * scale - logNormalizer), slope = p * (gradient[j] - delta) * scale;
    scores[j] = isSeen ? p : 0.0f;
    gradient[j] = isSeen ? slope : 0.0f;
  }
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

// A head of keys or values of one sequence, laid out for products over the head's dimension (`across`) or over the keys (`along`).
struct Laid {
  int64_t dim, length = 0;
  std::vector<float> across, along;
  void lay(const at::Tensor& x, int64_t head, int64_t start, int64_t count, bool isAcross, bool isAlong) {
    dim = x.size(2);
    length = count;
    const float* rows = x.const_data_ptr<float>() + start * x.stride(0) + head * x.stride(1);
    if (isAcross) {
      grow(across, product::packedSize(dim, count));
      product::packHere(rows, dim, count, 1, x.stride(0), across.data());
    }
    if (isAlong) {
      grow(along, product::packedSize(count, dim));
      product::packHere(rows, count, dim, x.stride(0), 1, along.data());
    }
  }
  static void grow(std::vector<float>& room, int64_t size) {
    if (static_cast<int64_t>(room.size()) < size) room.resize(size);
  }
};

// What one thread works with: keys and values of the sequence at hand and of the one it goes on from.
struct Room {
  Laid keys, values, prefixKeys, prefixValues;
  std::vector<float> scores, slopes, rows;
};

struct Rows {
  const float* data;
  int64_t stride;
  Rows(const at::Tensor& x, int64_t head, int64_t token) : data(x.const_data_ptr<float>() + token * x.stride(0) + head * x.stride(1)), stride(x.stride(0)) {}
};

// scores [rows, keys] = x (of the span's rows) times the seen keys (or values), transposed
void againstKeys(const Rows& x, const Laid& prefix, const Laid& own, const Span& span, float* scores) {
  const int64_t columns = span.columns(), dim = own.dim;
  if (span.prefixKeys > 0)
    product::run({x.data, x.stride, prefix.across.data() + span.firstPrefixKey * dim, span.rows, dim, span.prefixKeys, scores, columns});
  product::run({x.data, x.stride, own.across.data() + span.firstKey * dim, span.rows, dim, span.ownKeys, scores + span.prefixKeys, columns});
}

// out [rows, dim] = scores times the seen values (or keys)
void mixRows(const float* scores, const Laid& prefix, const Laid& own, const Span& span, float* out, int64_t stride) {
  const int64_t columns = span.columns(), dim = own.dim, width = product::panelWidth;
  product::run({scores + span.prefixKeys, columns, own.along.data() + span.firstKey * width, span.rows, span.ownKeys, dim, out, stride, nullptr, 0, own.length});
  if (span.prefixKeys > 0)
    product::run({scores, columns, prefix.along.data() + span.firstPrefixKey * width, span.rows, span.prefixKeys, dim, out, stride, out, stride, prefix.length});
}

// The gradient of the seen keys (or values) += scores, transposed, times x
void addToKeys(const float* scores, const Rows& x, const Sequence& own, const Span& span, int64_t dim, Room& room, float* gradient, int64_t stride) {
  const int64_t columns = span.columns();
  Laid::grow(room.rows, product::packedSize(span.rows, dim));
  product::packHere(x.data, span.rows, dim, x.stride, 1, room.rows.data());
  product::addOuterHere(scores, columns, room.rows.data(), span.rows, span.prefixKeys, dim, gradient + (own.prefixStart + span.firstPrefixKey) * stride, stride);
  product::addOuterHere(scores + span.prefixKeys, columns, room.rows.data(), span.rows, span.ownKeys, dim, gradient + (own.start + span.firstKey) * stride, stride);
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
  const int64_t pieces = at.sequences.size() * at.kvHeads, row = at.heads * at.dim;
  at::parallel_for(0, pieces, at.piecesPerThread(pieces), [&](int64_t begin, int64_t end) {
    static thread_local Room room;
    for (int64_t work = begin; work < end; work++) {
      const int64_t kvHead = work % at.kvHeads;
      const Sequence& own = at.sequences[work / at.kvHeads];
      room.keys.lay(ks, kvHead, own.start, own.length, true, false);
      room.values.lay(vs, kvHead, own.start, own.length, false, true);
      room.prefixKeys.lay(ks, kvHead, own.prefixStart, own.prefixLength, true, false);
      room.prefixValues.lay(vs, kvHead, own.prefixStart, own.prefixLength, false, true);
      for (int64_t head = kvHead * at.group; head < (kvHead + 1) * at.group; head++)
        for (int64_t block = 0; block * blockRows < own.length; block++) {
          const auto span = spanOf(block, own.length, own.prefixLength, window);
          const int64_t first = own.start + span.firstRow, columns = span.columns();
          Laid::grow(room.scores, span.rows * columns);
          float* scores = room.scores.data();
          againstKeys(Rows(qs, head, first), room.prefixKeys, room.keys, span, scores);
          for (int64_t r = 0; r < span.rows; r++) {
            const auto [from, to] = span.seen(r, own.prefixLength, window);
            softmaxRow(scores + r * columns, from, to, columns, scale, logs + head * at.tokens + first + r);
          }
          mixRows(scores, room.prefixValues, room.values, span, out + first * row + head * at.dim, row);
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
    static thread_local Room room;
    for (int64_t work = begin; work < end; work++) {
      const int64_t kvHead = work % at.kvHeads;
      const auto& family = at.families[work / at.kvHeads];
      float *keyGradient = toK + kvHead * at.dim, *valueGradient = toV + kvHead * at.dim;
      for (const int64_t s : family)
        for (int64_t t = at.sequences[s].start; t < at.sequences[s].start + at.sequences[s].length; t++)
          for (int64_t d = 0; d < at.dim; d++) keyGradient[t * kvRow + d] = valueGradient[t * kvRow + d] = 0;
      const Sequence& root = at.sequences[family[0]];
      room.prefixKeys.lay(ks, kvHead, root.start, root.length, true, true);
      room.prefixValues.lay(vs, kvHead, root.start, root.length, true, false);
      for (const int64_t s : family) {
        const Sequence& own = at.sequences[s];
        room.keys.lay(ks, kvHead, own.start, own.length, true, true);
        room.values.lay(vs, kvHead, own.start, own.length, true, false);
        for (int64_t head = kvHead * at.group; head < (kvHead + 1) * at.group; head++)
          for (int64_t block = 0; block * blockRows < own.length; block++) {
            const auto span = spanOf(block, own.length, own.prefixLength, window);
            const int64_t first = own.start + span.firstRow, columns = span.columns();
            Laid::grow(room.scores, span.rows * columns);
            Laid::grow(room.slopes, span.rows * columns);
            float *scores = room.scores.data(), *slopes = room.slopes.data();
            const Rows query(qs, head, first), incoming(gs, head, first);
            againstKeys(query, room.prefixKeys, room.keys, span, scores);
            againstKeys(incoming, room.prefixValues, room.values, span, slopes);
            for (int64_t r = 0; r < span.rows; r++) {
              const auto [from, to] = span.seen(r, own.prefixLength, window);
              const float delta = rowDot(incoming.data + r * row, out + (first + r) * row + head * at.dim, at.dim);
              backwardRow(scores + r * columns, slopes + r * columns, from, to, columns, scale, logs[head * at.tokens + first + r], delta);
            }
            mixRows(slopes, room.prefixKeys, room.keys, span, toQ + first * row + head * at.dim, row);
            addToKeys(slopes, query, own, span, at.dim, room, keyGradient, kvRow);
            addToKeys(scores, incoming, own, span, at.dim, room, valueGradient, kvRow);
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
