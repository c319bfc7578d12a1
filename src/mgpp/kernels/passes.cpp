// A pruned step's work on a CPU, each in one pass over many float32 tensors. passes.py calls it; the twins are in
// mgpp/functional.
//
// Loops are written so that the compiler makes vectors of them. A product and a sum are one operation only where fma says
// so (-ffp-contract=off): a score must be the twin's to the last bit, and a library built for another processor must give
// the same numbers.
// A comparison is so turned that NaN comes out where NaN goes in.

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr int64_t CHUNK = 1 << 12;            // values that a thread takes at once
constexpr int64_t ALONE_IS_FASTER = 1 << 15;  // values that take less time than to wake other threads
constexpr int BLOCK = 256;                    // values whose scores are looked at one by one only if one is inside a band
constexpr float TINY = 1.17549435e-38f, LARGEST = 3.40282347e+38f;
constexpr float LEAST = 1e-37f;  // as least_size in functional/prior.py

struct Row {  // one tensor
  float* weight;
  float* beside;  // its gradient, or its second moment
  int64_t size;
  float spike, slab;   // scale · (1/σ0² - 1/σ1²) and scale / σ1²
  float floor, limit;  // ε, and the most of a pull
  float correction;    // of the second moment
  int64_t below, equal;  // how many scores lie under a bound, and at it; or how many are infinite, or NaN: written here
};

inline float at_most(float x, float most) { return x > most ? most : x; }
inline float at_least(float x, float least) { return x < least ? least : x; }

// Work(row, start, size) for all chunks of all rows.
template <class Work>
void share(Row* rows, int64_t count, int threads, Work work) {
  int64_t total = 0;
  for (int64_t r = 0; r < count; r++) total += rows[r].size;
  if (total < ALONE_IS_FASTER) threads = 1;
  // The first half of every tensor is the first thread's, as in torch's operations: a core then has in its cache what it
  // touched last. Shared out to whoever is free, a pass took up to five times as long on two cores.
#pragma omp parallel num_threads(threads) if (threads > 1)
  for (int64_t r = 0; r < count; r++) {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < rows[r].size; start += CHUNK)
      work(rows[r], start, rows[r].size - start < CHUNK ? rows[r].size - start : CHUNK);
  }
}

inline void add(int64_t& sum, int64_t part) { __atomic_fetch_add(&sum, part, __ATOMIC_RELAXED); }

// ---- the prior ----

// e^x for -87 <= x <= 80, to two units in the last place: 2^n · e^r with |r| <= log(2)/2, and e^r by its series. The C
// library's is called value by value.
inline float exponential(float x) {
  constexpr float ROUND = 12582912.0f;  // 1.5 · 2^23: added to a small number, it leaves an integer in the last bits
  const float shifted = std::fma(x, 1.44269504f, ROUND), n = shifted - ROUND;
  const float r = std::fma(n, 1.90465421e-9f, std::fma(n, -0.693147182f, x));  // log(2), and what float32 leaves of it
  float e = 1.0f / 5040;
  e = std::fma(e, r, 1.0f / 720);
  e = std::fma(e, r, 1.0f / 120);
  e = std::fma(e, r, 1.0f / 24);
  e = std::fma(e, r, 1.0f / 6);
  e = std::fma(e, r, 0.5f);
  e = std::fma(e, r * r, r) + 1.0f;
  uint32_t bits;
  std::memcpy(&bits, &shifted, 4);
  bits = (bits + 127) << 23;  // what the shift leaves of `shifted` is n
  float power;
  std::memcpy(&power, &bits, 4);
  return e * power;
}

// The probability that w came from the spike. Further out than e^80 it is nothing beside the slab's part.
inline float in_spike(float w, float c1, float c2) {
  return 1.0f / (1.0f + exponential(at_least(at_most(c2 * (w * w) + c1, 80.0f), -87.0f)));
}

// ---- the scores ----

struct Size {
  float operator()(const Row&, float w, float) const { return std::fabs(w); }
};

struct Curvature {
  float operator()(const Row& row, float w, float v) const {
    const float size = std::fabs(w);
    return at_least(at_most(std::sqrt(v / row.correction), LARGEST) * size, size < TINY ? size : TINY);
  }
};

// The scores below `low` are counted, those up to `high` gathered, as far as there is room. Returns how many those are.
template <class Score>
int64_t look(Row* rows, int64_t count, int threads, float low, float high, float* inside, int64_t room) {
  int64_t gathered = 0;
  share(rows, count, threads, [=, &gathered](Row& row, int64_t start, int64_t size) {
    const Score score;
    float found[CHUNK], scores[BLOCK];
    int64_t below = 0, kept = 0;
    for (int64_t at = 0; at < size; at += BLOCK) {
      const float *w = row.weight + start + at, *v = row.beside + start + at;
      const int length = size - at < BLOCK ? size - at : BLOCK;
      int under = 0, up_to = 0;
      for (int i = 0; i < length; i++) {
        scores[i] = score(row, w[i], v[i]);
        under += scores[i] < low;
        up_to += scores[i] < high;
      }
      below += under;
      if (up_to == under) continue;
      for (int i = 0; i < length; i++) {
        found[kept] = scores[i];
        kept += scores[i] >= low && scores[i] < high;
      }
    }
    add(row.below, below);
    if (kept == 0) return;
    const int64_t to = __atomic_fetch_add(&gathered, kept, __ATOMIC_RELAXED);
    if (to + kept <= room) std::memcpy(inside + to, found, kept * sizeof(float));
  });
  return gathered;
}

// Weights that score below the cut become zero. All that are zero then are counted, and those that score just the cut.
template <class Score>
void zero(Row* rows, int64_t count, int threads, float cut) {
  share(rows, count, threads, [=](Row& row, int64_t start, int64_t size) {
    const Score score;
    float* __restrict w = row.weight + start;
    const float* v = row.beside + start;
    int zeros = 0, equal = 0;
    for (int64_t i = 0; i < size; i++) {
      const float s = score(row, w[i], v[i]);
      const float left = s < cut ? 0.0f : w[i];
      zeros += left == 0.0f;
      equal += s == cut;
      w[i] = left;
    }
    add(row.below, zeros);
    add(row.equal, equal);
  });
}

}  // namespace

extern "C" {

void mgpp_add_prior_gradient(Row* rows, int64_t count, int threads, float c1, float c2) {
  share(rows, count, threads, [=](Row& row, int64_t start, int64_t size) {
    const float* w = row.weight + start;
    float* __restrict g = row.beside + start;
    const float spike = row.spike, slab = row.slab, limit = row.limit;
    for (int64_t i = 0; i < size; i++)
      g[i] += at_least(at_most(w[i] * (in_spike(w[i], c1, c2) * spike + slab), limit), -limit);
  });
}

void mgpp_shrink_by_prior(Row* rows, int64_t count, int threads, float c1, float c2) {
  share(rows, count, threads, [=](Row& row, int64_t start, int64_t size) {
    float* __restrict w = row.weight + start;
    const float* v = row.beside + start;
    const float spike = row.spike, slab = row.slab, floor = row.floor, limit = row.limit;
    for (int64_t i = 0; i < size; i++) {
      const float weight = w[i], size = std::fabs(weight);
      const float pull = (size * slab + in_spike(size, c1, c2) * size * spike) / at_least(std::sqrt(v[i]) + floor, TINY);
      const float shrunk = at_least(size - at_most(pull, limit), size < LEAST ? size : LEAST);
      w[i] = std::copysign(shrunk, weight);
    }
  });
}

int64_t mgpp_look(Row* rows, int64_t count, int threads, int by_curvature, float low, float high, float* inside,
                  int64_t room) {
  return (by_curvature ? look<Curvature> : look<Size>)(rows, count, threads, low, high, inside, room);
}

void mgpp_zero(Row* rows, int64_t count, int threads, int by_curvature, float cut) {
  (by_curvature ? zero<Curvature> : zero<Size>)(rows, count, threads, cut);
}

void mgpp_count_broken(Row* rows, int64_t count, int threads) {
  share(rows, count, threads, [](Row& row, int64_t start, int64_t size) {
    const float* w = row.weight + start;
    int infinite = 0, nan = 0;
    for (int64_t i = 0; i < size; i++) {
      infinite += std::fabs(w[i]) > LARGEST;
      nan += w[i] != w[i];
    }
    add(row.below, infinite);
    add(row.equal, nan);
  });
}

int mgpp_threaded() {
#ifdef _OPENMP
  return 1;
#else
  return 0;
#endif
}
}
