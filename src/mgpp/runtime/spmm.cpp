// y = x·Wᵀ + b for a W of mostly zeros, in the layout of layout.py (its `multiply` is this file in plain torch).
//
// Tokens are taken in tiles: a tile's activations are packed as (column × token), so that one weight meets all tokens of
// the tile with one broadcast and V loads of consecutive floats. The weights of a tile's chunk of rows come in blocks of
// columns, whose packed activations stay in the nearest cache while every row of the chunk passes over them. A row's
// sums for the whole tile are held in registers.

#include <cstdint>
#include <cstdlib>

#include "vectors.h"

namespace {

constexpr int CHUNK = 64, BLOCK = 128;        // as in layout.py
constexpr int64_t ALONE_IS_FASTER = 1 << 17;  // products that take less time than to wake other threads

struct Line {  // one row (or pair of rows) in one block
  int16_t row, count;
};
struct Start {  // where a block's entries and lines begin
  int64_t entry, line;
};
struct Matrix {
  int64_t rows, columns, tied;  // `tied` rows share their columns: 1 or 2
  const float* values;
  const uint8_t* places;
  const Line* lines;
  const Start* starts;
};

struct Batch {
  const float* x;     // tokens × columns
  const float* bias;  // rows, or null
  float* y;           // tokens × rows
  int64_t tokens;

  Batch from(int64_t token, const Matrix& m) const {
    return {x + token * m.columns, bias, y + token * m.rows, tokens - token};
  }
  Batch first(int64_t count) const { return {x, bias, y, count}; }
};

// ---- one tile of V · L tokens ----

template <int R, int V>
inline void add_block(const Line* line, const Line* end, const float* value, const uint8_t* place, const float* packed,
                      float* sums) {
  constexpr int WIDTH = V * L;
  constexpr int CHAINS = R * V >= 4 ? 1 : 4 / (R * V);  // sums that do not wait for each other, at least four
  for (; line != end; line++) {
    Vector* row = (Vector*)(sums + line->row * WIDTH);
    Vector held[CHAINS][R * V] = {};
#pragma GCC unroll 16
    for (int u = 0; u < R * V; u++) held[0][u] = row[u];
    const auto add = [&](Vector* to) {
      const Vector* x = (const Vector*)(packed + (int64_t)*place++ * WIDTH);
#pragma GCC unroll 16
      for (int u = 0; u < V; u++)
#pragma GCC unroll 2
        for (int r = 0; r < R; r++) to[r * V + u] += x[u] * value[r];
      value += R;
    };
    const uint8_t* const last = place + line->count;
    while (last - place >= CHAINS) {
#pragma GCC unroll 4
      for (int c = 0; c < CHAINS; c++) add(held[c]);
    }
    while (place != last) add(held[0]);
#pragma GCC unroll 16
    for (int u = 0; u < R * V; u++) {
#pragma GCC unroll 4
      for (int c = 1; c < CHAINS; c++) held[0][u] += held[c][u];
      row[u] = held[0][u];
    }
  }
}

template <int R, int V>
void multiply_chunk(const Matrix& m, int64_t chunk, const float* packed, const Batch& tile) {
  constexpr int WIDTH = V * L;
  alignas(64) float sums[CHUNK * WIDTH];
  const int64_t first = chunk * CHUNK, rows = m.rows - first < CHUNK ? m.rows - first : CHUNK;
  for (int64_t r = 0; r < CHUNK; r++) {
    const float bias = tile.bias && r < rows ? tile.bias[first + r] : 0.0f;
    for (int j = 0; j < WIDTH; j++) sums[r * WIDTH + j] = bias;
  }
  const int64_t blocks = parts(m.columns, BLOCK);
  for (int64_t b = 0; b < blocks; b++) {
    const Start* s = m.starts + chunk * blocks + b;
    add_block<R, V>(m.lines + s[0].line, m.lines + s[1].line, m.values + s[0].entry * R, m.places + s[0].entry,
                    packed + b * BLOCK * WIDTH, sums);
  }
  unpack<V>(sums, tile.tokens, m.rows, rows, tile.y + first);
}

// ---- a team of threads ----

struct Team {
  int64_t me, size;
};

inline void wait_for_all() {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

// Where the part-th of `of` equal shares of the work begins, as tile · chunks + chunk: entries are the work.
int64_t share(const Matrix& m, int64_t tiles, int64_t part, int64_t of) {
  const int64_t blocks = parts(m.columns, BLOCK), chunks = parts(m.rows, CHUNK);
  const int64_t each = m.starts[chunks * blocks].entry;
  if (part == of || each == 0) return tiles * chunks * part / of;
  const int64_t wanted = each * tiles * part / of;
  int64_t chunk = 0;
  while (m.starts[chunk * blocks].entry < wanted % each) chunk++;
  return wanted / each * chunks + chunk;
}

// Each thread takes whole tiles: what it packs stays in its own cache, and nobody waits.
template <int R, int V>
void each_its_own(const Matrix& m, const Batch& batch, float* packed, Team team) {
  constexpr int WIDTH = V * L;
  packed += team.me * m.columns * WIDTH;
  for (int64_t t = team.me; t < batch.tokens / WIDTH; t += team.size) {
    const Batch tile = batch.from(t * WIDTH, m);
    pack<V>(tile.x, WIDTH, m.columns, 0, m.columns, packed);
    for (int64_t c = 0; c < parts(m.rows, CHUNK); c++) multiply_chunk<R, V>(m, c, packed, tile);
  }
}

// All threads share a few tiles, the last of which may have fewer tokens: they pack them, wait, and divide the chunks.
template <int R, int V>
void together(const Matrix& m, const Batch& batch, float* packed, Team team) {
  constexpr int WIDTH = V * L;
  const int64_t tiles = parts(batch.tokens, WIDTH), strips = parts(m.columns, L), chunks = parts(m.rows, CHUNK);
  for (int64_t i = tiles * strips * team.me / team.size; i < tiles * strips * (team.me + 1) / team.size; i++) {
    const Batch tile = batch.from(i / strips * WIDTH, m);
    const int64_t from = i % strips * L, to = from + L < m.columns ? from + L : m.columns;
    pack<V>(tile.x, tile.tokens, m.columns, from, to, packed + i / strips * m.columns * WIDTH);
  }
  wait_for_all();
  const int64_t end = share(m, tiles, team.me + 1, team.size);
  for (int64_t i = share(m, tiles, team.me, team.size); i < end; i++)
    multiply_chunk<R, V>(m, i % chunks, packed + i / chunks * m.columns * WIDTH, batch.from(i / chunks * WIDTH, m));
}

// The last tokens go in a tile just wide enough: one token costs one vector, not V.
template <int R, int V>
void remainder(const Matrix& m, const Batch& batch, float* packed, Team team) {
  if constexpr (V > 1)
    if (batch.tokens <= (V - 1) * L) return remainder<R, V - 1>(m, batch, packed, team);
  together<R, V>(m, batch, packed, team);
}

template <int R>
int multiply(const Matrix& m, const Batch& batch, int64_t threads) {
  // A tile's sums for R rows, with registers to spare for a weight. 128 tokens were slower than 64 on AVX-512.
  constexpr int V = REGISTERS == 32 || R == 2 ? 4 : 8, WIDTH = V * L;
  const int64_t full = batch.tokens / WIDTH, alone = full - full % threads, tile = m.columns * WIDTH;
  const int64_t own = alone ? threads : 0, shared = full - alone;
  const int64_t bytes = (own + shared + 1) * tile * sizeof(float);
  float* scratch = (float*)std::aligned_alloc(64, parts(bytes, 64) * 64);
  if (!scratch) return 1;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) if (threads > 1)
#endif
  {
#ifdef _OPENMP
    const Team team{omp_get_thread_num(), omp_get_num_threads()};
#else
    const Team team{0, 1};
#endif
    each_its_own<R, V>(m, batch.first(alone * WIDTH), scratch, team);
    if (shared)
      together<R, V>(m, batch.from(alone * WIDTH, m).first(shared * WIDTH), scratch + own * tile, team);
    if (batch.tokens > full * WIDTH)
      remainder<R, V>(m, batch.from(full * WIDTH, m), scratch + (own + shared) * tile, team);
  }
  std::free(scratch);
  return 0;
}

}  // namespace

extern "C" {

// x and y are contiguous, bias may be null. Returns 0, or 1 when there is no memory.
int mgpp_multiply(const Matrix* m, const float* x, const float* bias, float* y, int64_t tokens, int64_t threads) {
  const Batch batch{x, bias, y, tokens};
  const int64_t entries = m->starts[parts(m->rows, CHUNK) * parts(m->columns, BLOCK)].entry;
  if (entries * tokens < ALONE_IS_FASTER) threads = 1;
  return m->tied == 2 ? multiply<2>(*m, batch, threads) : multiply<1>(*m, batch, threads);
}

const char* mgpp_vectors() { return VECTORS; }

int mgpp_threaded() {
#ifdef _OPENMP
  return 1;
#else
  return 0;
#endif
}
}
