// Attention of single query tokens over a key-value cache in blocks (decoding). One block of threads per (token, key-value
// head, part of the keys); its warps take 32 keys at a time. Query heads that share a key-value head are the rows of one
// tensor-core tile, so that every key and value is read from memory once, straight into registers: the order of the
// dimensions inside a tile is free as long as both operands agree, and is chosen so that each thread loads 16 bytes.
#include "common.cuh"

namespace kernels {
namespace {

constexpr int warps = 4;
constexpr int step = 32;  // keys per warp and turn
constexpr float nothing = -1e30f;

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
  int maxBlocks, blockSize, heads, kvHeads, group, window, splits;
  float scale;
  __nv_bfloat16* out;
  float *partial, *statistics;
};

// `tall`: more than 8 query heads share a key-value head (at most 16).
template <int dim, bool tall>
__global__ void __launch_bounds__(warps * 32) decodeKernel(Decode p) {
  constexpr int chunks = dim / 32;  // 16-byte loads per key and thread
  constexpr int tiles = dim / 8;    // output tiles
  const int token = blockIdx.x, kvHead = blockIdx.y, split = blockIdx.z;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, major = lane >> 2, minor = lane & 3;
  const int last = p.limit[token];
  const int first = p.window > 0 && last > p.window ? last - p.window : 0;
  const int turn = warps * step;
  const int start = first / step * step;
  // Whole turns per split, by the length alone.
  const int perSplit = ((last - start + turn - 1) / turn + p.splits - 1) / p.splits * turn;
  const int begin = start + split * perSplit, end = min(last, begin + perSplit);
  const int32_t* table = p.table + static_cast<int64_t>(p.sequence[token]) * p.maxBlocks;
  const int64_t row = static_cast<int64_t>(p.kvHeads) * dim;

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
  const float scale = p.scale * 1.4426950408889634f;

  auto blockOf = [&](int at) { return at < end ? table[at / p.blockSize] : 0; };
  int at = begin + warp * step;
  int blocks[2] = {blockOf(at), blockOf(at + 16)};
  for (; at < end; at += turn) {
    const int64_t bases[2] = {(static_cast<int64_t>(blocks[0]) * p.blockSize + at % p.blockSize) * row + kvHead * dim,
                              (static_cast<int64_t>(blocks[1]) * p.blockSize + (at + 16) % p.blockSize) * row + kvHead * dim};
    blocks[0] = blockOf(at + turn), blocks[1] = blockOf(at + turn + 16);
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

  // The warps' shares become one.
  __shared__ float sharedPeak[warps][16], sharedMass[warps][16];
  __shared__ float sharedOutput[16 * dim];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    mass[h] += __shfl_xor_sync(0xffffffffu, mass[h], 1);
    mass[h] += __shfl_xor_sync(0xffffffffu, mass[h], 2);
    if (minor == 0) sharedPeak[warp][major + 8 * h] = largest[h], sharedMass[warp][major + 8 * h] = mass[h];
  }
  for (int k = threadIdx.x; k < 16 * dim; k += warps * 32) sharedOutput[k] = 0;
  __syncthreads();
  float total[2], peak[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    peak[h] = nothing, total[h] = 0;
#pragma unroll
    for (int w = 0; w < warps; w++) peak[h] = fmaxf(peak[h], sharedPeak[w][major + 8 * h]);
#pragma unroll
    for (int w = 0; w < warps; w++) total[h] += sharedMass[w][major + 8 * h] * exp2f(sharedPeak[w][major + 8 * h] - peak[h]);
  }
  // One warp after the other: the sum must not depend on who came first.
  for (int w = 0; w < warps; w++) {
    if (w == warp)
#pragma unroll
      for (int h = 0; h < (tall ? 2 : 1); h++) {
        const float share = exp2f(largest[h] - peak[h]);
#pragma unroll
        for (int t = 0; t < tiles; t++)
#pragma unroll
          for (int e = 0; e < 2; e++)
            sharedOutput[(major + 8 * h) * dim + (t / 8) * 64 + (minor * 2 + e) * 8 + t % 8] += output[t][2 * h + e] * share;
      }
    __syncthreads();
  }
  const int64_t head = static_cast<int64_t>(token) * p.heads + kvHead * p.group;
  if (p.splits == 1) {
    if (warp == 0 && minor == 0) sharedMass[0][major] = total[0], sharedMass[0][major + 8] = total[1];
    __syncthreads();
    for (int k = threadIdx.x; k < p.group * dim; k += warps * 32) {
      const float mass = sharedMass[0][k / dim];
      p.out[head * dim + k] = __float2bfloat16(mass > 0 ? sharedOutput[k] / mass : 0.0f);
    }
    return;
  }
  if (warp == 0 && minor == 0)
    for (int h = 0; h < 2; h++)
      if (major + 8 * h < p.group) {
        float* to = p.statistics + ((head + major + 8 * h) * p.splits + split) * 2;
        to[0] = peak[h], to[1] = total[h];
      }
  for (int k = threadIdx.x; k < p.group * dim; k += warps * 32) p.partial[((head + k / dim) * p.splits + split) * dim + k % dim] = sharedOutput[k];
}

// One block of `dim` threads per (token, head).
__global__ void joinKernel(const float* partial, const float* statistics, int splits, __nv_bfloat16* out) {
  const int64_t head = blockIdx.x;
  const int dim = blockDim.x;
  float peak = nothing, mass = 0, sum = 0;
  for (int s = 0; s < splits; s++) peak = fmaxf(peak, statistics[(head * splits + s) * 2]);
  for (int s = 0; s < splits; s++) {
    const float share = exp2f(statistics[(head * splits + s) * 2] - peak);
    mass += statistics[(head * splits + s) * 2 + 1] * share;
    sum += partial[(head * splits + s) * dim + threadIdx.x] * share;
  }
  out[head * dim + threadIdx.x] = __float2bfloat16(mass > 0 ? sum / mass : 0.0f);
}

at::Tensor pagedAttention(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& table, const at::Tensor& sequence,
                          const at::Tensor& limit, double scale, int64_t window) {
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
  // Few sequences: cut their keys so that the whole device has work. By the batch and the table's width alone: graphs stay valid.
  int processors = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, q.device().index()));
  int64_t most = (table.size(1) * blockSize + warps * step - 1) / (warps * step);
  int64_t splits = std::max<int64_t>(1, std::min<int64_t>({most, 32, (2 * processors) / (tokens * kvHeads)}));
  at::Tensor partial, statistics;
  if (splits > 1) {
    auto wide = query.options().dtype(at::kFloat);
    partial = at::empty({tokens, heads, splits, dim}, wide);
    statistics = at::empty({tokens, heads, splits, 2}, wide);
  }
  Decode p{constPointer<__nv_bfloat16>(query), query.stride(0), constPointer<__nv_bfloat16>(keys), constPointer<__nv_bfloat16>(values), table.const_data_ptr<int32_t>(),
           sequence.const_data_ptr<int32_t>(), limit.const_data_ptr<int32_t>(), static_cast<int>(table.size(1)), static_cast<int>(blockSize), static_cast<int>(heads),
           static_cast<int>(kvHeads), static_cast<int>(group), static_cast<int>(window), static_cast<int>(splits), static_cast<float>(scale), pointer<__nv_bfloat16>(output),
           splits > 1 ? partial.mutable_data_ptr<float>() : nullptr, splits > 1 ? statistics.mutable_data_ptr<float>() : nullptr};
  dim3 grid(tokens, kvHeads, splits);
  if (dim == 64 && group <= 8) decodeKernel<64, false><<<grid, warps * 32, 0, stream()>>>(p);
  else if (dim == 64) decodeKernel<64, true><<<grid, warps * 32, 0, stream()>>>(p);
  else if (group <= 8) decodeKernel<128, false><<<grid, warps * 32, 0, stream()>>>(p);
  else decodeKernel<128, true><<<grid, warps * 32, 0, stream()>>>(p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (splits > 1) {
    joinKernel<<<tokens * heads, dim, 0, stream()>>>(p.partial, p.statistics, static_cast<int>(splits), p.out);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return output.to(q.scalar_type());
}

}  // namespace
}  // namespace kernels

TORCH_LIBRARY_IMPL(verlet, CUDA, library) { library.impl("paged_attention", kernels::pagedAttention); }
