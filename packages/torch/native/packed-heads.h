// Causal attention of sequences laid end to end, one head of keys at a time, on the CPU. A sequence may go on from another one
// (many answers to one prompt, which is there once): it sees that one whole, then itself.
#pragma once
#include <ATen/ATen.h>

#include <utility>
#include <vector>

namespace packed {

struct Sequence {
  int64_t start, length, prefixStart, prefixLength;
};

struct Sequences {
  std::vector<Sequence> all;
  // A sequence that goes on from no other, with all that go on from it: they share keys.
  std::vector<std::vector<int64_t>> families;
  int64_t tokens = 0;
  // Queries times keys they could see.
  int64_t pairs = 0;

  // `prefixes`: for each sequence the number of the one it goes on from or -1; none when no sequence does.
  Sequences(at::IntArrayRef lengths, at::IntArrayRef prefixes);
};

// A tensor [tokens, heads, dim] whose heads are side by side in memory.
struct Plane {
  float* data;
  int64_t token, head;
  float* at(int64_t t, int64_t h) const { return data + t * token + h * head; }
};

// A head of keys or values: those that a sequence goes on from, then its own, laid out for products over the head's dimension
// (`across`) or over the keys (`along`).
struct Laid {
  int64_t dim = 0, capacity = 0;
  std::vector<float> across, along;
  void prepare(int64_t headDim, int64_t keys, bool isAcross, bool isAlong);
  // From key `first` on; those before stay.
  void lay(const Plane& x, int64_t head, int64_t start, int64_t count, int64_t first);

 private:
  bool hasAcross = false, hasAlong = false;
};

struct Heads {
  int64_t heads, kvHeads, dim;
  float scale;
  int64_t window;  // 0 or how many keys back
  int64_t group() const { return heads / kvHeads; }
};

// What one thread works with.
struct Room {
  Laid keys, values;
  std::vector<float> scores, slopes, rows, toKeys, toValues;
};

// The queries that belong to one head of keys, of one family. `logs` takes the log of the softmax's normalizer.
void forward(const Heads& shape, const Sequences& sequences, const std::vector<int64_t>& family, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v,
             const Plane& out, const Plane& logs, Room& room);

// The same for some sequences of a family only, each of which may be its first or go on from it.
void forwardSome(const Heads& shape, const Sequences& sequences, const int64_t* some, int64_t count, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v,
                 const Plane& out, const Plane& logs, Room& room);

// One head of keys of one family. `deltas` are the products of output and its gradient, one for each query. The gradients may take
// the place of q, k and v.
void backward(const Heads& shape, const Sequences& sequences, const std::vector<int64_t>& family, int64_t kvHead, const Plane& q, const Plane& k, const Plane& v,
              const Plane& gradient, const Plane& deltas, const Plane& logs, const Plane& toQ, const Plane& toK, const Plane& toV, Room& room);

}  // namespace packed
