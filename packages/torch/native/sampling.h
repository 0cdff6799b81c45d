// One draw from a row of logits on the CPU.
#pragma once
#include <cstdint>
#include <vector>

namespace sampling {

struct Asked {
  float temperature, topP, minP;
  int64_t topK;
  int64_t seed, stream, position;  // what the noise depends on
};

struct Drawn {
  int64_t token;
  float logProb;  // of the distribution at that temperature before truncation
};

class Drawer {
 public:
  Drawn draw(const float* logits, int64_t vocabulary, const Asked& asked);

 private:
  std::vector<int32_t> order;
  std::vector<float> e, sums;
};

}  // namespace sampling
