// Causal attention of sequences laid end to end, with its gradient, on the CPU. libtorch's own wants padded batches in another
// layout and equal numbers of heads: gathering, repeating and their gradients cost more than the attention of short sequences.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "packed-heads.h"
#include "vector-math.h"

namespace {

VERLET_CLONES float rowDot(const float* a, const float* b, int64_t n) { return laneDot(a, b, n); }

packed::Heads headsOf(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale, int64_t window, const packed::Sequences& sequences) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3, "q, k and v must be [tokens, heads, dim]");
  TORCH_CHECK(q.scalar_type() == at::kFloat && k.scalar_type() == at::kFloat && v.scalar_type() == at::kFloat, "packed attention on the CPU is float32");
  const int64_t tokens = q.size(0), heads = q.size(1), kvHeads = k.size(1), dim = q.size(2);
  TORCH_CHECK(kvHeads > 0 && heads % kvHeads == 0 && v.size(1) == kvHeads && k.size(2) == dim && v.size(2) == dim, "q, k and v do not match");
  TORCH_CHECK(k.size(0) == tokens && v.size(0) == tokens, "q, k and v have different numbers of tokens");
  TORCH_CHECK(sequences.tokens == tokens, "the lengths add up to ", sequences.tokens, " tokens, q has ", tokens);
  return {heads, kvHeads, dim, static_cast<float>(scale), window};
}

at::Tensor rowsOf(const at::Tensor& x) { return x.stride(2) == 1 && x.stride(0) > 0 && x.stride(1) > 0 ? x : x.contiguous(); }

packed::Plane planeOf(const at::Tensor& x) { return {const_cast<float*>(x.const_data_ptr<float>()), x.stride(0), x.stride(1)}; }

// Pieces of work of mean size that are worth a thread: short prompts of small models are not.
int64_t piecesPerThread(const packed::Sequences& sequences, const packed::Heads& shape, int64_t pieces) {
  return std::max<int64_t>(1, 400000 * pieces / (sequences.pairs * shape.heads * shape.dim + 1));
}

// packed_attention(q [tokens, heads, dim], k, v [tokens, kvHeads, dim], lengths, scale, window: 0 or how many keys back,
//   prefixes: for each sequence the number of the one it goes on from or -1; none when no sequence does)
//   -> ([tokens, heads, dim], log of the softmax's normalizer [tokens, heads])
std::tuple<at::Tensor, at::Tensor> packedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, at::IntArrayRef lengths, double scale,
                                                   int64_t window, at::IntArrayRef prefixes) {
  const packed::Sequences sequences(lengths, prefixes);
  const auto shape = headsOf(q, k, v, scale, window, sequences);
  auto qs = rowsOf(q), ks = rowsOf(k), vs = rowsOf(v);
  auto output = at::empty({q.size(0), shape.heads, shape.dim}, q.options()), normalizers = at::empty({q.size(0), shape.heads, 1}, q.options());
  std::vector<int64_t> byFamily, familyOf;
  for (size_t f = 0; f < sequences.families.size(); f++)
    for (const int64_t s : sequences.families[f]) {
      byFamily.push_back(s);
      familyOf.push_back(f);
    }
  const int64_t count = sequences.all.size(), pieces = count * shape.kvHeads;
  at::parallel_for(0, pieces, piecesPerThread(sequences, shape, pieces), [&](int64_t begin, int64_t end) {
    static thread_local packed::Room room;
    for (int64_t work = begin; work < end;) {
      const int64_t kvHead = work / count, from = work % count;
      int64_t to = from + 1;
      while (to < count && work + to - from < end && familyOf[to] == familyOf[from]) to++;
      packed::forwardSome(shape, sequences, byFamily.data() + from, to - from, kvHead, planeOf(qs), planeOf(ks), planeOf(vs), planeOf(output), planeOf(normalizers), room);
      work += to - from;
    }
  });
  return {output, normalizers.squeeze(2)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> packedAttentionBackward(const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                                       const at::Tensor& output, const at::Tensor& normalizers, at::IntArrayRef lengths, double scale,
                                                                       int64_t window, at::IntArrayRef prefixes) {
  const packed::Sequences sequences(lengths, prefixes);
  const auto shape = headsOf(q, k, v, scale, window, sequences);
  auto qs = rowsOf(q), ks = rowsOf(k), vs = rowsOf(v), gs = gradient.contiguous(), os = output.contiguous(), logs = normalizers.contiguous().unsqueeze(2);
  // Keys may go unseen only in sequences of no tokens, so every row of the three is written.
  auto toQ = at::empty({q.size(0), shape.heads, shape.dim}, q.options()), toK = at::empty(k.sizes(), q.options()), toV = at::empty(k.sizes(), q.options());
  auto deltas = at::empty({q.size(0), shape.heads, 1}, q.options());
  const float *outer = gs.const_data_ptr<float>(), *out = os.const_data_ptr<float>();
  float* products = deltas.mutable_data_ptr<float>();
  at::parallel_for(0, q.size(0) * shape.heads, rowsPerThread(shape.dim), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) products[r] = rowDot(outer + r * shape.dim, out + r * shape.dim, shape.dim);
  });
  const int64_t pieces = sequences.families.size() * shape.kvHeads;
  // A family at a time: whoever adds to the gradient of its shared keys does so in the same order, whatever the threads.
  at::parallel_for(0, pieces, piecesPerThread(sequences, shape, pieces), [&](int64_t begin, int64_t end) {
    static thread_local packed::Room room;
    for (int64_t work = begin; work < end; work++)
      packed::backward(shape, sequences, sequences.families[work / shape.kvHeads], work % shape.kvHeads, planeOf(qs), planeOf(ks), planeOf(vs), planeOf(gs), planeOf(deltas),
                       planeOf(logs), planeOf(toQ), planeOf(toK), planeOf(toV), room);
  });
  return {toQ, toK, toV};
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
