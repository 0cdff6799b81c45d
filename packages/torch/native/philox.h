// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): random bits as a pure function of a key
// and a counter. The same code runs on the host and in CUDA kernels.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define VERLET_HOST_DEVICE __host__ __device__
#else
#define VERLET_HOST_DEVICE
#endif

namespace philox {

struct Bits {
  uint32_t x, y, z, w;
};

VERLET_HOST_DEVICE inline Bits generate(uint64_t key, uint64_t high, uint64_t low) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  Bits c{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = 0xD2511F53ull * c.x, p1 = 0xCD9E8D57ull * c.z;
    c = {static_cast<uint32_t>(p1 >> 32) ^ c.y ^ k0, static_cast<uint32_t>(p1), static_cast<uint32_t>(p0 >> 32) ^ c.w ^ k1,
         static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Uniform in (0, 1), never an end point; 24 bits, what a float holds. The largest would round up to 1.
VERLET_HOST_DEVICE inline float uniform(uint32_t bits) {
  const float u = (static_cast<float>(bits >> 8) + 0.5f) * (1.0f / 16777216.0f);
  return u < 1.0f ? u : 0.99999994f;
}

}  // namespace philox
