// Drawing tokens. libtorch's generators are stateful: what a row gets depends on who shares its batch. Here the noise is a
// function of (seed, stream, position), so a sampled sequence does not.
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "philox.h"
#include "sampling.h"
#include "vector-math.h"

namespace {

// keyed_uniform(seed [rows] int64, stream [rows] int64, position [rows] int64, n) -> [rows, n] float32 in (0, 1)
at::Tensor keyedUniform(const at::Tensor& seed, const at::Tensor& stream, const at::Tensor& position, int64_t n) {
  TORCH_CHECK(seed.scalar_type() == at::kLong && stream.scalar_type() == at::kLong && position.scalar_type() == at::kLong,
              "seed, stream and position must be int64");
  TORCH_CHECK(seed.dim() == 1 && seed.sizes() == stream.sizes() && seed.sizes() == position.sizes(),
              "seed, stream and position must be vectors of one length");
  auto rows = seed.size(0);
  auto result = at::empty({rows, n}, at::kFloat);
  auto s = seed.contiguous(), t = stream.contiguous(), p = position.contiguous();
  const int64_t *seeds = s.const_data_ptr<int64_t>(), *streams = t.const_data_ptr<int64_t>(), *positions = p.const_data_ptr<int64_t>();
  float* out = result.mutable_data_ptr<float>();
  at::parallel_for(0, rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) {
      for (int64_t k = 0; k < n; k += 4) {
        auto bits = philox::generate(seeds[row], streams[row], static_cast<uint64_t>(positions[row]) << 32 | static_cast<uint64_t>(k >> 2));
        uint32_t four[4] = {bits.x, bits.y, bits.z, bits.w};
        for (int64_t j = 0; j < 4 && k + j < n; j++) out[row * n + k + j] = philox::uniform(four[j]);
      }
    }
  });
  return result;
}

// A row's unnormalized probabilities, and their sums over blocks: the place of a draw is found by its block.
constexpr int64_t sumBlock = 64;

VERLET_CLONES void exponentials(const float* x, int64_t n, float largest, float inverse, float* e, float* sums) {
  for (int64_t k = 0; k < n; k++) {
    const float distance = (x[k] - largest) * inverse;
    // What was banned has no chance at all.
    e[k] = distance < -87.0f ? 0.0f : fastExp(distance);
  }
  for (int64_t k = 0; k < n; k += sumBlock) *sums++ = laneSum(e + k, n - k < sumBlock ? n - k : sumBlock);
}

VERLET_CLONES float largestOf(const float* x, int64_t n) { return laneMax(x, n); }

// The first token at which the running sum reaches the goal; sums of blocks with nothing in them are passed over.
int64_t placeOf(const std::vector<float>& e, const std::vector<float>& sums, int64_t n, double goal) {
  double sum = 0;
  int64_t last = -1;
  for (int64_t block = 0; block * sumBlock < n; block++) {
    const int64_t first = block * sumBlock, end = std::min(first + sumBlock, n);
    if (sum + sums[block] < goal && end < n) {
      sum += sums[block];
      if (sums[block] > 0) last = end - 1;
      continue;
    }
    for (int64_t v = first; v < end; v++) {
      if (e[v] <= 0) continue;
      last = v;
      sum += e[v];
      if (sum >= goal) return v;
    }
  }
  while (last > 0 && e[last] <= 0) last--;
  return last;
}

// Clears the probabilities that top-k, top-p and min-p leave out; returns what is left of the mass.
double truncate(float* p, int64_t vocabulary, int64_t topK, double topP, double minP, std::vector<int32_t>& order) {
  double threshold = 0;
  if (minP > 0) threshold = minP * *std::max_element(p, p + vocabulary);
  bool limited = topK > 0 && topK < vocabulary;
  if (limited || topP < 1) {
    order.resize(vocabulary);
    std::iota(order.begin(), order.end(), 0);
    auto likelier = [p](int32_t a, int32_t b) { return p[a] > p[b] || (p[a] == p[b] && a < b); };
    int64_t kept = limited ? topK : vocabulary;
    if (limited) std::nth_element(order.begin(), order.begin() + (kept - 1), order.end(), likelier);
    if (topP < 1) {
      std::sort(order.begin(), order.begin() + kept, likelier);
      double mass = 0, goal = 0;
      for (int64_t k = 0; k < kept; k++) goal += p[order[k]];
      goal *= topP;
      int64_t k = 0;
      while (k < kept && mass < goal) mass += p[order[k++]];
      kept = std::max<int64_t>(k, 1);
    }
    for (int64_t k = kept; k < vocabulary; k++) p[order[k]] = 0;
  }
  double mass = 0;
  for (int64_t k = 0; k < vocabulary; k++) {
    if (p[k] < threshold) p[k] = 0;
    mass += p[k];
  }
  return mass;
}

}  // namespace

namespace sampling {

Drawn Drawer::draw(const float* own, int64_t vocabulary, const Asked& asked) {
  e.resize(vocabulary);
  sums.resize((vocabulary + sumBlock - 1) / sumBlock);
  const float largest = largestOf(own, vocabulary), inverse = asked.temperature > 0 ? 1.0f / asked.temperature : 1.0f;
  exponentials(own, vocabulary, largest, inverse, e.data(), sums.data());
  double mass = 0;
  for (float sum : sums) mass += sum;
  const double logMass = std::log(mass);
  int64_t chosen = -1;
  // A row in which something is not a number has no order to sort by, and no mass to draw from.
  if (asked.temperature > 0 && std::isfinite(mass)) {
    if ((asked.topK > 0 && asked.topK < vocabulary) || asked.topP < 1 || asked.minP > 0) {
      mass = truncate(e.data(), vocabulary, asked.topK, asked.topP, asked.minP, order);
      for (int64_t block = 0; block * sumBlock < vocabulary; block++)
        sums[block] = laneSum(e.data() + block * sumBlock, std::min(sumBlock, vocabulary - block * sumBlock));
    }
    const auto bits = philox::generate(asked.seed, asked.stream, static_cast<uint64_t>(asked.position) << 32);
    chosen = placeOf(e, sums, vocabulary, mass * philox::uniform(bits.x));
  }
  if (chosen < 0) chosen = std::max_element(own, own + vocabulary) - own;
  return {chosen, static_cast<float>((own[chosen] - largest) * static_cast<double>(inverse) - logMass)};
}

}  // namespace sampling

namespace {

// sample(logits [rows, vocabulary], temperature, topK, topP, minP [rows], seed, stream, position [rows])
//   -> (token [rows] int64, log_prob [rows] float32 of the distribution at that temperature before truncation)
std::tuple<at::Tensor, at::Tensor> sample(const at::Tensor& logits, const at::Tensor& temperature, const at::Tensor& topK,
                                          const at::Tensor& topP, const at::Tensor& minP, const at::Tensor& seed,
                                          const at::Tensor& stream, const at::Tensor& position) {
  TORCH_CHECK(logits.dim() == 2 && logits.size(1) > 0, "logits must be [rows, vocabulary]");
  auto rows = logits.size(0), vocabulary = logits.size(1);
  auto source = logits.to(at::kFloat).contiguous();
  auto tokens = at::empty({rows}, at::kLong);
  auto logProbs = at::empty({rows}, at::kFloat);
  auto heat = temperature.to(at::kFloat).contiguous(), tp = topP.to(at::kFloat).contiguous(), mp = minP.to(at::kFloat).contiguous();
  auto k = topK.to(at::kLong).contiguous();
  TORCH_CHECK(seed.scalar_type() == at::kLong && stream.scalar_type() == at::kLong && position.scalar_type() == at::kLong, "seed, stream and position must be int64");
  for (const auto& x : {heat, tp, mp, k, seed, stream, position}) TORCH_CHECK(x.dim() == 1 && x.numel() == rows, "there must be one of everything for each row");
  auto s = seed.contiguous(), t = stream.contiguous(), p = position.contiguous();
  const float *x = source.const_data_ptr<float>(), *heats = heat.const_data_ptr<float>(), *topPs = tp.const_data_ptr<float>(), *minPs = mp.const_data_ptr<float>();
  const int64_t *topKs = k.const_data_ptr<int64_t>(), *seeds = s.const_data_ptr<int64_t>(), *streams = t.const_data_ptr<int64_t>(), *positions = p.const_data_ptr<int64_t>();
  int64_t* token = tokens.mutable_data_ptr<int64_t>();
  float* logProb = logProbs.mutable_data_ptr<float>();
  // Waking another thread takes as long as drawing from small vocabularies.
  at::parallel_for(0, rows, 4 * rowsPerThread(vocabulary), [&](int64_t begin, int64_t end) {
    sampling::Drawer drawer;
    for (int64_t row = begin; row < end; row++) {
      const auto drawn = drawer.draw(x + row * vocabulary, vocabulary, {heats[row], topPs[row], minPs[row], topKs[row], seeds[row], streams[row], positions[row]});
      token[row] = drawn.token;
      logProb[row] = drawn.logProb;
    }
  });
  return {tokens, logProbs};
}

// next_tokens(staged [rows] int32, source [rows] int32, previous [n] int64) -> staged, or previous[source] where source >= 0
at::Tensor nextTokens(const at::Tensor& staged, const at::Tensor& source, const at::Tensor& previous) {
  auto found = previous.index_select(0, source.clamp_min(0).to(at::kLong));
  return at::where(source.ge(0), found, staged.to(at::kLong));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(verlet, library) {
  library.def("next_tokens(Tensor staged, Tensor source, Tensor previous) -> Tensor");
  library.def("keyed_uniform(Tensor seed, Tensor stream, Tensor position, int n) -> Tensor");
  library.def(
      "sample(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor min_p, Tensor seed, Tensor stream, "
      "Tensor position) -> (Tensor token, Tensor log_prob)");
}

TORCH_LIBRARY_IMPL(verlet, CPU, library) {
  library.impl("keyed_uniform", keyedUniform);
  library.impl("sample", sample);
  library.impl("next_tokens", nextTokens);
}
