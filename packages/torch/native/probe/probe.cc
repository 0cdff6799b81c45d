// Runs the CPU kernels for which oneDNN picks an instruction set by itself, in every precision Verlet trains in.
// Some virtual machines announce AMX or AVX512-FP16 and then refuse the instruction: this process dies with SIGILL
// there, and its parent caps ONEDNN_MAX_CPU_ISA. Prints one line of JSON when everything ran and was right.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <cstdio>

namespace {

// A wrong product is as bad as a dead process: ones times ones must be the inner size, which bf16 and fp16 hold exactly.
bool product_is_exact(at::ScalarType type, int64_t rows, int64_t inner, int64_t columns) {
  auto left = at::ones({rows, inner}, type);
  auto right = at::ones({inner, columns}, type);
  auto product = at::mm(left, right).to(at::kFloat);
  return product.min().item<float>() == static_cast<float>(inner) && product.max().item<float>() == static_cast<float>(inner);
}

}  // namespace

int main() {
  at::init_num_threads();
  bool right = true;
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    right = right && product_is_exact(type, 64, 128, 64);
    right = right && product_is_exact(type, 1, 128, 256);
    auto batch = at::ones({2, 16, 64}, type);
    right = right && at::bmm(batch, batch.transpose(1, 2)).to(at::kFloat).max().item<float>() == 64.0f;
    auto query = at::ones({1, 2, 32, 32}, type);
    at::scaled_dot_product_attention(query, query, query);
    auto weight = at::ones({8, 4}, type);
    at::linear(at::ones({3, 4}, type), weight, at::ones({8}, type));
  }
  std::printf("{\"right\":%s,\"capability\":\"%s\"}\n", right ? "true" : "false", at::get_cpu_capability().c_str());
  return right ? 0 : 3;
}
