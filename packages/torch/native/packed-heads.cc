#include "packed-heads.h"

#include <cmath>

#include "product.h"
#include "vector-math.h"

namespace packed {

Sequences::Sequences(at::IntArrayRef lengths, at::IntArrayRef prefixes) {
  const int64_t count = lengths.size();
  TORCH_CHECK(prefixes.empty() || static_cast<int64_t>(prefixes.size()) == count, "there are ", count, " lengths and ", prefixes.size(), " prefixes");
  std::vector<int64_t> family(count);
  for (int64_t s = 0; s < count; s++) {
    const int64_t length = lengths[s], prefix = prefixes.empty() ? -1 : prefixes[s];
    TORCH_CHECK(length >= 0, "a sequence cannot have ", length, " tokens");
    TORCH_CHECK(prefix < s && (prefix < 0 || prefixes[prefix] < 0), "sequence ", s, " cannot go on from ", prefix, ": only from one before it that goes on from no other");
    if (prefix < 0) {
      family[s] = families.size();
      families.emplace_back();
      all.push_back({tokens, length, tokens, 0});
    } else {
      family[s] = family[prefix];
      all.push_back({tokens, length, all[prefix].start, all[prefix].length});
    }
    families[family[s]].push_back(s);
    pairs += length * (length + all[s].prefixLength);
    tokens += length;
  }
}

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

void grow(std::vector<float>& room, int64_t size) {
  if (static_cast<int64_t>(room.size()) < size) room.resize(size);
}

struct Rows {
  const float* data;
  int64_t stride;
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
void addToKeys(const float* scores, const Rows& x, const Sequence& own, const Span& span, int64_t dim, Room& room, const Plane& gradient, int64_t head) {
  const int64_t columns = span.columns();
  grow(room.rows, product::packedSize(span.rows, dim));
  product::packHere(x.data, span.rows, dim, x.stride, 1, room.rows.data());
  product::addOuterHere(scores, columns, room.rows.data(), span.rows, span.prefixKeys, dim, gradient.at(own.prefixStart + span.firstPrefixKey, head), gradient.token);
  product::addOuterHere(scores + span.prefixKeys, columns, room.rows.data(), span.rows, span.ownKeys, dim, gradient.at(own.start + span.firstKey, head), gradient.token);
}

}  // namespace

void Laid::lay(const Plane& x, int64_t head, int64_t start, int64_t count, int64_t headDim, bool isAcross, bool isAlong) {
  dim = headDim;
  length = count;
  const float* rows = x.at(start, head);
  if (isAcross) {
    grow(across, product::packedSize(dim, count));
    product::packHere(rows, dim, count, 1, x.token, across.data());
  }
  if (isAlong) {
    grow(along, product::packedSize(count, dim));
    product::packHere(rows, count, dim, x.token, 1, along.data());
  }
}

void layPrefix(const Heads& shape, const Sequence& own, int64_t kvHead, const Plane& k, const Plane& v, Room& room) {
  room.prefixKeys.lay(k, kvHead, own.prefixStart, own.prefixLength, shape.dim, true, false);
  room.prefixValues.lay(v, kvHead, own.prefixStart, own.prefixLength, shape.dim, false, true);
}

void forward(const Heads& shape, const Sequence& own, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v, const Plane& out, const Plane& logs, Room& room) {
  room.keys.lay(k, kvHead, own.start, own.length, shape.dim, true, false);
  room.values.lay(v, kvHead, own.start, own.length, shape.dim, false, true);
  const int64_t group = shape.group();
  for (int64_t head = kvHead * group; head < (kvHead + 1) * group; head++)
    for (int64_t block = 0; block * blockRows < own.length; block++) {
      const auto span = spanOf(block, own.length, own.prefixLength, shape.window);
      const int64_t first = own.start + span.firstRow, columns = span.columns();
      grow(room.scores, span.rows * columns);
      float* scores = room.scores.data();
      againstKeys({q.at(first, head), q.token}, room.prefixKeys, room.keys, span, scores);
      for (int64_t r = 0; r < span.rows; r++) {
        const auto [from, to] = span.seen(r, own.prefixLength, shape.window);
        softmaxRow(scores + r * columns, from, to, columns, shape.scale, logs.at(first + r, head));
      }
      mixRows(scores, room.prefixValues, room.values, span, out.at(first, head), out.token);
    }
}

void backward(const Heads& shape, const Sequences& sequences, const std::vector<int64_t>& family, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v,
              const Plane& gradient, const Plane& deltas, const Plane& logs, const Plane& toQ, const Plane& toK, const Plane& toV, Room& room) {
  const int64_t dim = shape.dim, group = shape.group();
  const Sequence& root = sequences.all[family[0]];
  room.prefixKeys.lay(k, kvHead, root.start, root.length, dim, true, true);
  room.prefixValues.lay(v, kvHead, root.start, root.length, dim, true, false);
  for (const int64_t s : family) {
    const Sequence& own = sequences.all[s];
    room.keys.lay(k, kvHead, own.start, own.length, dim, true, true);
    room.values.lay(v, kvHead, own.start, own.length, dim, true, false);
    for (int64_t t = own.start; t < own.start + own.length; t++) {
      float *key = toK.at(t, kvHead), *value = toV.at(t, kvHead);
      for (int64_t d = 0; d < dim; d++) key[d] = value[d] = 0;
    }
    for (int64_t head = kvHead * group; head < (kvHead + 1) * group; head++)
      for (int64_t block = 0; block * blockRows < own.length; block++) {
        const auto span = spanOf(block, own.length, own.prefixLength, shape.window);
        const int64_t first = own.start + span.firstRow, columns = span.columns();
        grow(room.scores, span.rows * columns);
        grow(room.slopes, span.rows * columns);
        float *scores = room.scores.data(), *slopes = room.slopes.data();
        const Rows query{q.at(first, head), q.token}, incoming{gradient.at(first, head), gradient.token};
        againstKeys(query, room.prefixKeys, room.keys, span, scores);
        againstKeys(incoming, room.prefixValues, room.values, span, slopes);
        for (int64_t r = 0; r < span.rows; r++) {
          const auto [from, to] = span.seen(r, own.prefixLength, shape.window);
          backwardRow(scores + r * columns, slopes + r * columns, from, to, columns, shape.scale, *logs.at(first + r, head), *deltas.at(first + r, head));
        }
        addToKeys(slopes, query, own, span, dim, room, toK, kvHead);
        addToKeys(scores, incoming, own, span, dim, room, toV, kvHead);
        // Last: where the gradient takes the place of the queries, they are needed no more.
        mixRows(slopes, room.prefixKeys, room.keys, span, toQ.at(first, head), toQ.token);
      }
  }
}

}  // namespace packed
