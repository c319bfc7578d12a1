// softmax(q·kᵀ · scale + mask) · v, head by head. Twin: torch's scaled_dot_product_attention.
//
// Queries are taken in tiles, packed as (dimension × query), so that one number of a key or a value meets all queries of
// the tile with one broadcast. A tile's scores lie as (key × query): the largest of a query, its sum and its weights need
// no step across lanes. Sums of K keys (then of K dimensions) × V vectors of queries are held in registers.

#include <cfloat>
#include <cmath>
#include <cstdlib>

#include "vectors.h"

namespace {

constexpr int K = 4, MOST = REGISTERS == 32 ? 4 : 2;  // K · MOST sums, and registers to spare

struct Side {  // batch × heads × tokens × dim, of which the last lie side by side; strides count floats
  const float* at;
  int64_t batch, head, token;

  const float* of(int64_t b, int64_t h) const { return at + b * batch + h * head; }
};
struct Mask {  // batch × keys: `seen` says which count, `added` is added to their scores; at most one of them is there
  const uint8_t* seen;
  const float* added;
  int64_t batch, key;

  float of(int64_t b, int64_t j) const {
    const int64_t at = b * batch + j * key;
    return seen ? (seen[at] ? 0.0f : -INFINITY) : added ? added[at] : 0.0f;
  }
};
struct Sizes {
  int64_t batch, heads, groups, queries, keys, dim;  // a key's head serves as many heads of queries as heads / groups
  float scale;
};

// e^x for x <= 0, to two units in the last place; of NaN it is NaN.
inline Vector exponential(Vector x) {
  const float MAGIC = 12582912.0f;  // 1.5 · 2²³: what is added to it is rounded to a whole number, in its lowest bits
  const Vector shifted = x * 1.44269504f + MAGIC, n = shifted - MAGIC;
  const Vector r = x - n * 0.693359375f + n * 2.12194440e-4f;  // x - n·ln 2, in two steps
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Vector power = (Vector)((Lanes)p + ((Lanes)shifted << 23));
  const Vector nothing = x < -87.0f ? Vector{} : x;  // beyond, the power of two is no normal number
  return x >= -87.0f ? power : nothing;
}

// The sums over `count` of a row's numbers, each with a vector of the tile: what both products are made of.
template <int V>
inline void add_up(const float* const* rows, int64_t step, int64_t count, const float* tile, Vector (*sums)[V]) {
  for (int64_t i = 0; i < count; i++) {
    const Vector* x = (const Vector*)(tile + i * V * L);
#pragma GCC unroll 4
    for (int r = 0; r < K; r++)
#pragma GCC unroll 4
      for (int u = 0; u < V; u++) sums[r][u] += x[u] * rows[r][i * step];
  }
}

struct Head {  // one head's queries from some on, its keys and values, and where its outputs go
  const float *q, *k, *v;
  int64_t q_stride, k_stride, v_stride;
  float* out;
  int64_t out_stride, queries;

  Head from(int64_t query) const {
    return {q + query * q_stride, k, v, q_stride, k_stride, v_stride, out + query * out_stride, out_stride, queries - query};
  }
};

// Scores of all keys into `scores`; the largest of each query into `most`.
template <int V>
void score(const Sizes& sizes, const Head& head, const Mask& mask, int64_t b, const float* packed, float* scores,
           Vector* most) {
  for (int u = 0; u < V; u++) most[u] = Vector{} - FLT_MAX;  // not -∞: where all is masked nothing is left, and no NaN
  for (int64_t j = 0; j < sizes.keys; j += K) {
    const int64_t here = sizes.keys - j < K ? sizes.keys - j : K;
    const float* rows[K];
    for (int r = 0; r < K; r++) rows[r] = head.k + (r < here ? j + r : j) * head.k_stride;
    Vector sums[K][V] = {};
    add_up<V>(rows, 1, sizes.dim, packed, sums);
    for (int r = 0; r < here; r++) {
      const float added = mask.of(b, j + r);
#pragma GCC unroll 4
      for (int u = 0; u < V; u++) {
        const Vector s = sums[r][u] * sizes.scale + added;
        ((Vector*)(scores + (j + r) * V * L))[u] = s;
        most[u] = s > most[u] ? s : most[u];
      }
    }
  }
}

template <int V>
void attend_tile(const Sizes& sizes, const Head& head, const Mask& mask, int64_t b, float* scratch) {
  constexpr int WIDTH = V * L;
  float *packed = scratch, *scores = packed + sizes.dim * WIDTH;  // packed: the queries, and then the outputs
  pack<V>(head.q, head.queries, head.q_stride, 0, sizes.dim, packed);
  Vector most[V], sum[V] = {};
  score<V>(sizes, head, mask, b, packed, scores, most);
  for (int64_t j = 0; j < sizes.keys; j++)
#pragma GCC unroll 4
    for (int u = 0; u < V; u++) {
      Vector& s = ((Vector*)(scores + j * WIDTH))[u];
      s = exponential(s - most[u]);
      sum[u] += s;
    }
  for (int u = 0; u < V; u++) sum[u] = sum[u] == 0.0f ? Vector{} : 1.0f / sum[u];
  for (int64_t d = 0; d < sizes.dim; d += K) {
    const float* columns[K];
    for (int r = 0; r < K; r++) columns[r] = head.v + d + r;
    Vector sums[K][V] = {};
    add_up<V>(columns, head.v_stride, sizes.keys, scores, sums);
    for (int r = 0; r < K; r++)
#pragma GCC unroll 4
      for (int u = 0; u < V; u++) ((Vector*)(packed + (d + r) * WIDTH))[u] = sums[r][u] * sum[u];
  }
  unpack<V>(packed, head.queries < WIDTH ? head.queries : WIDTH, head.out_stride, sizes.dim, head.out);
}

// The last queries go in a tile just wide enough.
template <int V>
void attend(const Sizes& sizes, const Head& head, const Mask& mask, int64_t b, float* scratch) {
  if constexpr (V > 1)
    if (head.queries <= (V - 1) * L) return attend<V - 1>(sizes, head, mask, b, scratch);
  attend_tile<V>(sizes, head, mask, b, scratch);
}

}  // namespace

extern "C" {

// `out` is batch × queries × heads × dim, contiguous, and dim a multiple of 4. Returns 0, or 1 when there is no memory.
int mgpp_attend(const Side* q, const Side* k, const Side* v, const Mask* mask, const Sizes* given, float* out,
                int64_t threads) {
  constexpr int WIDTH = MOST * L;
  const Sizes sizes = *given;
  const int64_t tiles = parts(sizes.queries, WIDTH), work = sizes.batch * sizes.heads * tiles;
  if (threads > work) threads = work;
  const int64_t each = (sizes.dim + sizes.keys) * WIDTH;
  float* scratch = (float*)std::aligned_alloc(64, parts(threads * each * sizeof(float), 64) * 64);
  if (!scratch) return 1;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) if (threads > 1)
#endif
  {
#ifdef _OPENMP
    const int64_t me = omp_get_thread_num(), size = omp_get_num_threads();
#else
    const int64_t me = 0, size = 1;
#endif
    for (int64_t i = work * me / size; i < work * (me + 1) / size; i++) {
      const int64_t b = i / tiles / sizes.heads, h = i / tiles % sizes.heads, shared = h * sizes.groups / sizes.heads;
      const int64_t stride = sizes.heads * sizes.dim;
      const Head head{q->of(b, h), k->of(b, shared), v->of(b, shared), q->token, k->token, v->token,
                      out + (b * sizes.queries * sizes.heads + h) * sizes.dim, stride, sizes.queries};
      attend<MOST>(sizes, head.from(i % tiles * WIDTH), *mask, b, scratch + me * each);
    }
  }
  std::free(scratch);
  return 0;
}
}
