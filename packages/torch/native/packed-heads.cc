#include "packed-heads.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "product.h"
#include "vector-math.h"

namespace packed {

Sequences::Sequences(at::IntArrayRef lengths, at::IntArrayRef prefixes) {
  const int64_t count = lengths.size();
  TORCH_CHECK(prefixes.empty() || static_cast<int64_t>(prefixes.size()) == count, "there are ", count, " lengths and ", prefixes.size(), " prefixes");
  std::vector<int64_t> family(count);
  for (int64_t s = 0; s < count; s++) {
    const int64_t length = lengths[s], prefix = prefixes.empty() ? -1 : prefixes[s];
    TORCH_CHECK(length >= 0 && length <= std::numeric_limits<int32_t>::max(), "a sequence cannot have ", length, " tokens");
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

// One block of queries of one head, and the keys it sees. Columns of the scores are these keys, in the order of their positions.
struct Span {
  int64_t firstRow, rows, begin, keys;
  // Length of a row of scores, in whole panels.
  int64_t columns() const { return product::panelsOf(keys) * product::panelWidth; }
  // Keys that row r sees, as a range of columns.
  std::pair<int64_t, int64_t> seen(int64_t r, int64_t prefix, int64_t window) const {
    const int64_t query = prefix + firstRow + r;
    return {window > 0 ? std::max<int64_t>(0, query - window + 1 - begin) : 0, query - begin + 1};
  }
};

// A window that begins within a panel of keys takes the panel whole.
Span spanOf(int64_t block, int64_t length, int64_t prefix, int64_t window) {
  const int64_t firstRow = block * blockRows, rows = std::min(blockRows, length - firstRow);
  const int64_t wanted = window > 0 ? std::max<int64_t>(0, prefix + firstRow - window + 1) : 0, begin = wanted / product::panelWidth * product::panelWidth;
  return {firstRow, rows, begin, prefix + firstRow + rows - begin};
}

VERLET_CLONES void normalize(float* row, int32_t begin, int32_t end, int32_t columns, float scale, float* logNormalizer) {
  float sum;
  *logNormalizer = softmaxRow(row, begin, end, columns, scale, &sum);
  const float inverse = 1 / sum;
  for (int32_t j = 0; j < columns; j++) row[j] *= inverse;
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

// scores [rows, keys] = x (of the span's rows) times the seen keys (or values), transposed. What is in the last panel behind the keys is
// multiplied too; nobody looks at it.
void againstKeys(const Rows& x, const Laid& keys, const Span& span, float* scores) {
  const int64_t columns = span.columns();
  product::run({x.data, x.stride, keys.across.data() + span.begin * keys.dim, span.rows, keys.dim, columns, scores, columns});
}

// out [rows, dim] = scores times the seen values (or keys)
void mixRows(const float* scores, const Laid& values, const Span& span, float* out, int64_t stride) {
  product::run({scores, span.columns(), values.along.data() + span.begin * product::panelWidth, span.rows, span.keys, values.dim, out, stride, nullptr, 0, values.capacity});
}

// Gradients of keys are summed in rows of whole panels.
int64_t gradientRow(int64_t dim) { return product::panelsOf(dim) * product::panelWidth; }

// The gradient of the seen keys (or values) += scores, transposed, times x
void addToKeys(const float* scores, const Rows& x, const Span& span, int64_t dim, Room& room, std::vector<float>& gradient) {
  const int64_t row = gradientRow(dim);
  grow(room.rows, product::packedSize(span.rows, dim));
  product::packHere(x.data, span.rows, dim, x.stride, 1, room.rows.data());
  product::addOuterHere(scores, span.columns(), room.rows.data(), span.rows, span.keys, row, gradient.data() + span.begin * row, row);
}

int64_t longestOf(const Sequences& sequences, const int64_t* some, int64_t count) {
  int64_t longest = 0;
  for (int64_t n = 0; n < count; n++) longest = std::max(longest, sequences.all[some[n]].prefixLength + sequences.all[some[n]].length);
  return longest;
}

}  // namespace

void Laid::prepare(int64_t headDim, int64_t keys, bool isAcross, bool isAlong) {
  dim = headDim;
  capacity = keys;
  hasAcross = isAcross;
  hasAlong = isAlong;
  if (isAcross) grow(across, product::packedSize(dim, keys));
  if (isAlong) grow(along, product::packedSize(keys, dim));
}

void Laid::lay(const Plane& x, int64_t head, int64_t start, int64_t count, int64_t first) {
  const float* rows = x.at(start, head);
  if (hasAcross) product::layColumns(rows, x.token, count, dim, first, across.data());
  for (int64_t panel = 0; hasAlong && panel < product::panelsOf(dim); panel++) {
    const int64_t from = panel * product::panelWidth, width = std::min(product::panelWidth, dim - from);
    product::packHere(rows + from, count, width, x.token, 1, along.data() + from * capacity + first * product::panelWidth);
  }
}

void forwardSome(const Heads& shape, const Sequences& sequences, const int64_t* some, int64_t count, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v,
                 const Plane& out, const Plane& logs, Room& room) {
  const int64_t longest = longestOf(sequences, some, count), group = shape.group();
  room.keys.prepare(shape.dim, longest, true, false);
  room.values.prepare(shape.dim, longest, false, true);
  for (int64_t n = 0; n < count; n++) {
    const Sequence& own = sequences.all[some[n]];
    // The first of a family leaves its keys where the others, which come right behind it, look for them.
    if (n == 0 && own.prefixLength > 0) {
      room.keys.lay(k, kvHead, own.prefixStart, own.prefixLength, 0);
      room.values.lay(v, kvHead, own.prefixStart, own.prefixLength, 0);
    }
    room.keys.lay(k, kvHead, own.start, own.length, own.prefixLength);
    room.values.lay(v, kvHead, own.start, own.length, own.prefixLength);
    for (int64_t head = kvHead * group; head < (kvHead + 1) * group; head++)
      for (int64_t block = 0; block * blockRows < own.length; block++) {
        const auto span = spanOf(block, own.length, own.prefixLength, shape.window);
        const int64_t first = own.start + span.firstRow, columns = span.columns();
        grow(room.scores, span.rows * columns);
        float* scores = room.scores.data();
        againstKeys({q.at(first, head), q.token}, room.keys, span, scores);
        for (int64_t r = 0; r < span.rows; r++) {
          const auto [from, to] = span.seen(r, own.prefixLength, shape.window);
          normalize(scores + r * columns, from, to, columns, shape.scale, logs.at(first + r, head));
        }
        mixRows(scores, room.values, span, out.at(first, head), out.token);
      }
  }
}

void forward(const Heads& shape, const Sequences& sequences, const std::vector<int64_t>& family, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v,
             const Plane& out, const Plane& logs, Room& room) {
  forwardSome(shape, sequences, family.data(), family.size(), kvHead, q, k, v, out, logs, room);
}

void backward(const Heads& shape, const Sequences& sequences, const std::vector<int64_t>& family, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v,
              const Plane& gradient, const Plane& deltas, const Plane& logs, const Plane& toQ, const Plane& toK, const Plane& toV, Room& room) {
  const int64_t dim = shape.dim, group = shape.group(), row = gradientRow(dim);
  const int64_t longest = longestOf(sequences, family.data(), family.size());
  room.keys.prepare(dim, longest, true, true);
  room.values.prepare(dim, longest, true, false);
  grow(room.toKeys, longest * row);
  grow(room.toValues, longest * row);
  const auto write = [&](const Plane& to, const std::vector<float>& sums, int64_t from, int64_t count, int64_t start) {
    for (int64_t t = 0; t < count; t++) std::memcpy(to.at(start + t, kvHead), sums.data() + (from + t) * row, dim * sizeof(float));
  };
  for (size_t n = 0; n < family.size(); n++) {
    const Sequence& own = sequences.all[family[n]];
    // The first of the family leaves its keys, and the sums of their gradients, where the others go on from them.
    room.keys.lay(k, kvHead, own.start, own.length, own.prefixLength);
    room.values.lay(v, kvHead, own.start, own.length, own.prefixLength);
    for (auto* sums : {&room.toKeys, &room.toValues}) std::fill_n(sums->begin() + own.prefixLength * row, own.length * row, 0.0f);
    for (int64_t head = kvHead * group; head < (kvHead + 1) * group; head++)
      for (int64_t block = 0; block * blockRows < own.length; block++) {
        const auto span = spanOf(block, own.length, own.prefixLength, shape.window);
        const int64_t first = own.start + span.firstRow, columns = span.columns();
        grow(room.scores, span.rows * columns);
        grow(room.slopes, span.rows * columns);
        float *scores = room.scores.data(), *slopes = room.slopes.data();
        const Rows query{q.at(first, head), q.token}, incoming{gradient.at(first, head), gradient.token};
        againstKeys(query, room.keys, span, scores);
        againstKeys(incoming, room.values, span, slopes);
        for (int64_t r = 0; r < span.rows; r++) {
          const auto [from, to] = span.seen(r, own.prefixLength, shape.window);
          backwardRow(scores + r * columns, slopes + r * columns, from, to, columns, shape.scale, *logs.at(first + r, head), *deltas.at(first + r, head));
        }
        addToKeys(slopes, query, span, dim, room, room.toKeys);
        addToKeys(scores, incoming, span, dim, room, room.toValues);
        // Last: where the gradient takes the place of the queries, they are needed no more.
        mixRows(slopes, room.keys, span, toQ.at(first, head), toQ.token);
      }
    if (n == 0) continue;
    write(toK, room.toKeys, own.prefixLength, own.length, own.start);
    write(toV, room.toValues, own.prefixLength, own.length, own.start);
  }
  const Sequence& first = sequences.all[family[0]];
  write(toK, room.toKeys, 0, first.length, first.start);
  write(toV, room.toValues, 0, first.length, first.start);
}

}  // namespace packed
