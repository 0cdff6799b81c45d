// Attention of single query tokens over a key-value cache in blocks (decoding). The keys of all sequences are cut into items
// of 128; a warp takes an item and a key-value head at a time, so that long and short sequences keep the device equally busy,
// and a second kernel joins the items of a token. Query heads that share a key-value head are the rows of one tensor-core
// tile: every key and value is read from memory once, straight into registers. The order of the dimensions inside a tile is
// free as long as both operands agree, and is chosen so that each thread loads 16 bytes.
#include "common.cuh"

namespace kernels {
namespace {

constexpr int warps = 4;
constexpr int step = 32;       // keys per warp and turn
constexpr int itemKeys = 128;  // keys per item
constexpr float nothing = -1e30f;

// Blocks per multiprocessor that registers leave room for.
constexpr int residentBlocks(int dim) { return dim == 64 ? 4 : 2; }

__device__ __forceinline__ void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pair(float low, float high) {
  __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&both);
}

struct Decode {
  const __nv_bfloat16* q;
  int64_t tokenStride;
  const __nv_bfloat16 *keys, *values;
  const int32_t *table, *sequence, *limit;
  // items[k] is the token and the number of its part; offsets[t] counts the items of the tokens before t.
  const int2* items;
  const int32_t* offsets;
  int tokens, maxBlocks, blockSize, heads, kvHeads, group, window;
  float scale;
  __nv_bfloat16* out;
  float *partial, *statistics;
};

// One block: counts the items of each token and lists them.
__global__ void planKernel(const int32_t* limit, int tokens, int2* items, int32_t* offsets) {
  __shared__ int32_t shared[1024];
  int32_t base = 0;
  for (int from = 0; from < tokens; from += 1024) {
    const int token = from + threadIdx.x;
    const int32_t own = token < tokens ? (limit[token] + itemKeys - 1) / itemKeys : 0;
    shared[threadIdx.x] = own;
    for (int offset = 1; offset < 1024; offset <<= 1) {
      __syncthreads();
      const int32_t before = static_cast<int>(threadIdx.x) >= offset ? shared[threadIdx.x - offset] : 0;
      __syncthreads();
      shared[threadIdx.x] += before;
    }
    __syncthreads();
    const int32_t start = base + shared[threadIdx.x] - own;
    if (token < tokens) {
      offsets[token] = start;
      for (int32_t k = 0; k < own; k++) items[start + k] = make_int2(token, k);
    }
    base += shared[1023];
    __syncthreads();
  }
  if (threadIdx.x == 0) offsets[tokens] = base;
}

// `tall`: more than 8 query heads share a key-value head (at most 16).
template <int dim, bool tall>
__global__ void __launch_bounds__(warps * 32, residentBlocks(dim)) decodeKernel(Decode p) {
  constexpr int chunks = dim / 32;  // 16-byte loads per key and thread
  constexpr int tiles = dim / 8;    // output tiles
  const int lane = threadIdx.x & 31, major = lane >> 2, minor = lane & 3;
  const int64_t row = static_cast<int64_t>(p.kvHeads) * dim;
  const int units = p.offsets[p.tokens] * p.kvHeads, workers = gridDim.x * warps;
  const float scale = p.scale * 1.4426950408889634f;
  for (int unit = blockIdx.x * warps + (threadIdx.x >> 5); unit < units; unit += workers) {
  const int item = unit / p.kvHeads, kvHead = unit % p.kvHeads;
  const int2 work = p.items[item];
  const int token = work.x, begin = work.y * itemKeys;
  const int last = p.limit[token], end = min(last, begin + itemKeys);
  const int first = p.window > 0 && last > p.window ? last - p.window : 0;
  const int32_t* table = p.table + static_cast<int64_t>(p.sequence[token]) * p.maxBlocks;

  // Query tile: rows are heads, the 16 dimensions of product i are those that this thread holds of a key.
  uint32_t query[chunks * 2][4];
  {
    const __nv_bfloat16* q = p.q + token * p.tokenStride + static_cast<int64_t>(kvHead) * p.group * dim;
#pragma unroll
    for (int c = 0; c < chunks; c++) {
      uint4 low = make_uint4(0, 0, 0, 0), high = make_uint4(0, 0, 0, 0);
      if (major < p.group) low = *reinterpret_cast<const uint4*>(q + major * dim + c * 32 + minor * 8);
      if (tall && major + 8 < p.group) high = *reinterpret_cast<const uint4*>(q + (major + 8) * dim + c * 32 + minor * 8);
      query[2 * c][0] = low.x, query[2 * c][2] = low.y, query[2 * c + 1][0] = low.z, query[2 * c + 1][2] = low.w;
      query[2 * c][1] = high.x, query[2 * c][3] = high.y, query[2 * c + 1][1] = high.z, query[2 * c + 1][3] = high.w;
    }
  }

  float output[tiles][4];
#pragma unroll
  for (int t = 0; t < tiles; t++) output[t][0] = output[t][1] = output[t][2] = output[t][3] = 0;
  float largest[2] = {nothing, nothing}, mass[2] = {0, 0};

  auto blockOf = [&](int at) { return at < end ? table[at / p.blockSize] : 0; };
  int at = begin;
  int blocks[2] = {blockOf(at), blockOf(at + 16)};
  for (; at < end; at += step) {
    const int64_t bases[2] = {(static_cast<int64_t>(blocks[0]) * p.blockSize + at % p.blockSize) * row + kvHead * dim,
                              (static_cast<int64_t>(blocks[1]) * p.blockSize + (at + 16) % p.blockSize) * row + kvHead * dim};
    blocks[0] = blockOf(at + step), blocks[1] = blockOf(at + step + 16);
    uint4 key[4][chunks], value[2][4][chunks / 2];
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const int k = n * 8 + major;
      const __nv_bfloat16* from = p.keys + bases[n >> 1] + (k & 15) * row + minor * 8;
#pragma unroll
      for (int c = 0; c < chunks; c++) key[n][c] = at + k < end ? __ldg(reinterpret_cast<const uint4*>(from + c * 32)) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int k = minor * 2 + (j & 1) + (j >> 1) * 8;
        const __nv_bfloat16* from = p.values + bases[half] + k * row + major * 8;
#pragma unroll
        for (int c = 0; c < chunks / 2; c++)
          value[half][j][c] = at + half * 16 + k < end ? __ldg(reinterpret_cast<const uint4*>(from + c * 64)) : make_uint4(0, 0, 0, 0);
      }
    float score[4][4];
#pragma unroll
    for (int n = 0; n < 4; n++) {
      score[n][0] = score[n][1] = score[n][2] = score[n][3] = 0;
#pragma unroll
      for (int c = 0; c < chunks; c++) {
        const uint4 k = key[n][c];
        multiply(score[n], query[2 * c][0], query[2 * c][1], query[2 * c][2], query[2 * c][3], k.x, k.y);
        multiply(score[n], query[2 * c + 1][0], query[2 * c + 1][1], query[2 * c + 1][2], query[2 * c + 1][3], k.z, k.w);
      }
    }
    float peak[2] = {largest[0], largest[1]};
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int k = at + n * 8 + minor * 2 + (e & 1);
        score[n][e] = k >= first && k < end ? score[n][e] * scale : nothing;
        peak[e >> 1] = fmaxf(peak[e >> 1], score[n][e]);
      }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (!tall && h == 1) continue;
      peak[h] = fmaxf(peak[h], __shfl_xor_sync(0xffffffffu, peak[h], 1));
      peak[h] = fmaxf(peak[h], __shfl_xor_sync(0xffffffffu, peak[h], 2));
      const float shrink = exp2f(largest[h] - peak[h]);
      largest[h] = peak[h];
      mass[h] *= shrink;
#pragma unroll
      for (int t = 0; t < tiles; t++) output[t][2 * h] *= shrink, output[t][2 * h + 1] *= shrink;
#pragma unroll
      for (int n = 0; n < 4; n++)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++) {
          // A warp whose keys are all outside the window has no peak yet.
          score[n][e] = score[n][e] <= nothing ? 0.0f : exp2f(score[n][e] - peak[h]);
          mass[h] += score[n][e];
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float *s0 = score[2 * half], *s1 = score[2 * half + 1];
      const uint32_t a0 = pair(s0[0], s0[1]), a2 = pair(s1[0], s1[1]);
      const uint32_t a1 = tall ? pair(s0[2], s0[3]) : 0, a3 = tall ? pair(s1[2], s1[3]) : 0;
#pragma unroll
      for (int c = 0; c < chunks / 2; c++) {
        const uint32_t v[4][4] = {{value[half][0][c].x, value[half][0][c].y, value[half][0][c].z, value[half][0][c].w},
                                  {value[half][1][c].x, value[half][1][c].y, value[half][1][c].z, value[half][1][c].w},
                                  {value[half][2][c].x, value[half][2][c].y, value[half][2][c].z, value[half][2][c].w},
                                  {value[half][3][c].x, value[half][3][c].y, value[half][3][c].z, value[half][3][c].w}};
#pragma unroll
        for (int t = 0; t < 8; t++) {
          const uint32_t select = t & 1 ? 0x7632 : 0x5410;
          multiply(output[c * 8 + t], a0, a1, a2, a3, __byte_perm(v[0][t >> 1], v[1][t >> 1], select), __byte_perm(v[2][t >> 1], v[3][t >> 1], select));
        }
      }
    }
  }

  float* partial = p.partial + (static_cast<int64_t>(item) * p.heads + kvHead * p.group) * dim;
  float* statistics = p.statistics + (static_cast<int64_t>(item) * p.heads + kvHead * p.group) * 2;
#pragma unroll
  for (int h = 0; h < (tall ? 2 : 1); h++) {
    mass[h] += __shfl_xor_sync(0xffffffffu, mass[h], 1);
    mass[h] += __shfl_xor_sync(0xffffffffu, mass[h], 2);
    const int head = major + 8 * h;
    if (head >= p.group) continue;
    if (minor == 0) *reinterpret_cast<float2*>(statistics + head * 2) = make_float2(largest[h], mass[h]);
#pragma unroll
    for (int c = 0; c < chunks / 2; c++)
#pragma unroll
      for (int e = 0; e < 2; e++)
#pragma unroll
        for (int t = 0; t < 8; t += 4)
          *reinterpret_cast<float4*>(partial + head * dim + c * 64 + (minor * 2 + e) * 8 + t) =
              make_float4(output[c * 8 + t][2 * h + e], output[c * 8 + t + 1][2 * h + e], output[c * 8 + t + 2][2 * h + e], output[c * 8 + t + 3][2 * h + e]);
  }
  }
}

// One warp per (token, head): the items' shares become one.
template <int dim>
__global__ void joinKernel(const float* partial, const float* statistics, const int32_t* offsets, int heads, int64_t rows, __nv_bfloat16* out) {
  constexpr int each = dim / 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x >> 5) + (threadIdx.x >> 5);
  if (row >= rows) return;
  const int lane = threadIdx.x & 31;
  const int64_t token = row / heads, head = row % heads;
  const int from = offsets[token], to = offsets[token + 1];
  float peak = nothing;
  for (int s = from + lane; s < to; s += 32) peak = fmaxf(peak, statistics[(static_cast<int64_t>(s) * heads + head) * 2]);
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, offset));
  float mass = 0, sum[each] = {};
  for (int s = from; s < to; s++) {
    const int64_t at = static_cast<int64_t>(s) * heads + head;
    const float2 own = *reinterpret_cast<const float2*>(statistics + at * 2);
    const float share = exp2f(own.x - peak);
    mass += own.y * share;
#pragma unroll
    for (int k = 0; k < each; k++) sum[k] += partial[at * dim + lane * each + k] * share;
  }
#pragma unroll
  for (int k = 0; k < each; k++) out[row * dim + lane * each + k] = __float2bfloat16(mass > 0 ? sum[k] / mass : 0.0f);
}

int64_t itemCapacity(int64_t tokens, int64_t keysPerToken) { return tokens * ((keysPerToken + itemKeys - 1) / itemKeys); }

// attention_plan(limit [tokens] int32, max_keys) -> (items [n, 2] int32, offsets [tokens + 1] int32): how the keys are cut into
// items, the same for all layers of a pass.
std::tuple<at::Tensor, at::Tensor> attentionPlan(const at::Tensor& limit, int64_t maxKeys) {
  TORCH_CHECK(limit.scalar_type() == at::kInt && limit.dim() == 1 && limit.is_contiguous(), "limit must be an int32 vector");
  c10::cuda::CUDAGuard guard(limit.device());
  auto tokens = limit.numel();
  auto items = at::empty({itemCapacity(tokens, maxKeys), 2}, limit.options()), offsets = at::empty({tokens + 1}, limit.options());
  planKernel<<<1, 1024, 0, stream()>>>(limit.const_data_ptr<int32_t>(), static_cast<int>(tokens), reinterpret_cast<int2*>(items.mutable_data_ptr<int32_t>()),
                                       offsets.mutable_data_ptr<int32_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {items, offsets};
}

at::Tensor plannedAttention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& table, const at::Tensor& sequence,
                            const at::Tensor& limit, const at::Tensor& items, const at::Tensor& offsets, double scale, int64_t window) {
  TORCH_CHECK(q.dim() == 3 && keys.dim() == 4 && table.dim() == 2, "q must be [tokens, heads, dim], the cache [blocks, size, heads, dim], the table 2-d");
  TORCH_CHECK(table.scalar_type() == at::kInt && sequence.scalar_type() == at::kInt && limit.scalar_type() == at::kInt, "table, sequence and limit must be int32");
  TORCH_CHECK(keys.is_contiguous() && values.is_contiguous() && table.is_contiguous() && sequence.is_contiguous() && limit.is_contiguous(),
              "the cache, the table, sequence and limit must be contiguous");
  TORCH_CHECK(keys.scalar_type() == at::kBFloat16 && values.scalar_type() == at::kBFloat16, "the CUDA cache must be bfloat16");
  auto tokens = q.size(0), heads = q.size(1), dim = q.size(2), kvHeads = keys.size(2), blockSize = keys.size(1);
  TORCH_CHECK(heads % kvHeads == 0 && keys.size(3) == dim, "heads do not match the cache");
  auto group = heads / kvHeads;
  TORCH_CHECK(dim == 64 || dim == 128, "heads of 64 or 128 dimensions are supported, not of ", dim);
  TORCH_CHECK(group <= 16, "at most 16 query heads may share a key-value head, here ", group);
  TORCH_CHECK(blockSize % 16 == 0, "blocks must hold a multiple of 16 tokens, not ", blockSize);
  c10::cuda::CUDAGuard guard(q.device());
  auto query = q.scalar_type() == at::kBFloat16 ? q : q.to(at::kBFloat16);
  if (query.stride(2) != 1 || query.stride(1) != dim || query.stride(0) % 8 != 0 || !isAligned(query)) query = query.contiguous();
  auto output = at::empty({tokens, heads, dim}, query.options());
  if (tokens == 0) return output.to(q.scalar_type());
  TORCH_CHECK(items.scalar_type() == at::kInt && items.is_contiguous() && offsets.scalar_type() == at::kInt && offsets.numel() == tokens + 1, "the plan does not fit");
  int processors = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, q.device().index()));
  auto wide = query.options().dtype(at::kFloat);
  auto partial = at::empty({items.size(0), heads, dim}, wide), statistics = at::empty({items.size(0), heads, 2}, wide);
  Decode p{constPointer<__nv_bfloat16>(query), query.stride(0), constPointer<__nv_bfloat16>(keys), constPointer<__nv_bfloat16>(values), table.const_data_ptr<int32_t>(),
           sequence.const_data_ptr<int32_t>(), limit.const_data_ptr<int32_t>(), reinterpret_cast<const int2*>(items.const_data_ptr<int32_t>()),
           offsets.const_data_ptr<int32_t>(), static_cast<int>(tokens), static_cast<int>(table.size(1)), static_cast<int>(blockSize), static_cast<int>(heads),
           static_cast<int>(kvHeads), static_cast<int>(group), static_cast<int>(window), static_cast<float>(scale), pointer<__nv_bfloat16>(output),
           partial.mutable_data_ptr<float>(), statistics.mutable_data_ptr<float>()};
  // Blocks stay and take one item after the other; by the batch alone, so that graphs stay valid.
  const int grid = static_cast<int>(std::min<int64_t>(processors * residentBlocks(dim), (items.size(0) * kvHeads + warps - 1) / warps));
  if (dim == 64 && group <= 8) decodeKernel<64, false><<<grid, warps * 32, 0, stream()>>>(p);
  else if (dim == 64) decodeKernel<64, true><<<grid, warps * 32, 0, stream()>>>(p);
  else if (group <= 8) decodeKernel<128, false><<<grid, warps * 32, 0, stream()>>>(p);
  else decodeKernel<128, true><<<grid, warps * 32, 0, stream()>>>(p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const int64_t rows = tokens * heads;
  if (dim == 64) joinKernel<64><<<(rows + 7) / 8, 256, 0, stream()>>>(p.partial, p.statistics, p.offsets, p.heads, rows, p.out);
  else joinKernel<128><<<(rows + 7) / 8, 256, 0, stream()>>>(p.partial, p.statistics, p.offsets, p.heads, rows, p.out);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output.to(q.scalar_type());
}

at::Tensor pagedAttention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& table, const at::Tensor& sequence,
                          const at::Tensor& limit, double scale, int64_t window) {
  auto [items, offsets] = attentionPlan(limit, table.size(1) * keys.size(1));
  return plannedAttention(q, keys, values, table, sequence, limit, items, offsets, scale, window);
}

}  // namespace
}  // namespace kernels

TORCH_LIBRARY_IMPL(verlet, CUDA, library) {
  library.impl("attention_plan", kernels::attentionPlan);
  library.impl("planned_attention", kernels::plannedAttention);
  library.impl("paged_attention", kernels::pagedAttention);
}
