// A pruned step's work on a CPU, each in one pass over many float32 tensors. passes.py calls it; the twins are in
// mgpp/functional.
//
// Loops are written so that the compiler makes vectors of them. A product and a sum are one operation only where fma says
// so (-ffp-contract=off): a score must be the twin's to the last bit, and a library built for another processor must give
// the same numbers.
// A comparison is so turned that NaN comes out where NaN goes in.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr int64_t CHUNK = 1 << 12;            // values that a thread takes at once
constexpr int64_t ALONE_IS_FASTER = 1 << 15;  // values that take less time than to wake other threads
constexpr int BLOCK = 256;                    // values whose scores are looked at one by one only if one is in a window
constexpr int AHEAD = 2 * BLOCK, LINE = 16;   // how far ahead values are asked for, and how many come at once
constexpr int BUCKETS = 1 << 10;              // in which a window is counted: 8 KiB on a thread's stack
constexpr float TINY = 1.17549435e-38f, LARGEST = 3.40282347e+38f;
constexpr float LEAST = 1e-12f;  // as least_size in functional/prior.py

struct Row {  // one tensor
  float* weight;
  float* beside;  // its gradient, or its second moment
  int64_t size;
  int64_t step;  // 1; for a score 0 where one second moment is all weights', of which there is a chunk
  float spike, slab;   // scale · (1/σ0² - 1/σ1²) and scale / σ1²
  float floor, limit;  // ε, and the most of a pull
  float correction;    // of the second moment
  int64_t zeros, equal;  // how many weights are zero, and how many score the cut; written here
  int64_t infinite, nan;
};

inline float at_most(float x, float most) { return x > most ? most : x; }
inline float at_least(float x, float least) { return x < least ? least : x; }

// Work(row, start, size) for all chunks of all rows. Each thread has a copy of the work, which it destroys at its end.
template <class Work>
void share(Row* rows, int64_t count, int threads, const Work& given) {
  int64_t total = 0;
  for (int64_t r = 0; r < count; r++) total += rows[r].size;
  if (total < ALONE_IS_FASTER) threads = 1;
  // The first half of every tensor is the first thread's, as in torch's operations: a core then has in its cache what it
  // touched last. Shared out to whoever is free, a pass took up to five times as long on two cores.
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    Work work = given;
    for (int64_t r = 0; r < count; r++) {
#pragma omp for schedule(static) nowait
      for (int64_t start = 0; start < rows[r].size; start += CHUNK)
        work(rows[r], start, std::min(CHUNK, rows[r].size - start));
    }
  }
}

// Part(start, size) for all blocks of a chunk. An Intel Xeon (Sapphire Rapids) waits for what is not asked for ahead;
// to an AMD EPYC (Zen 5) it makes no difference.
template <class Part>
inline void blockwise(const Row& row, int64_t start, int64_t size, const Part& part) {
  for (int64_t at = start; at < start + size; at += BLOCK) {
    const float *w = row.weight + at, *v = row.beside + row.step * at;
    for (int i = AHEAD; i < AHEAD + BLOCK; i += LINE) {
      __builtin_prefetch(w + i, 1);
      __builtin_prefetch(v + row.step * i);
    }
    part(at, static_cast<int>(std::min<int64_t>(BLOCK, start + size - at)));
  }
}

inline void add(int64_t& sum, int64_t part) { __atomic_fetch_add(&sum, part, __ATOMIC_RELAXED); }

// ---- the prior ----

// e^x for -87 <= x <= 87, to two units in the last place: 2^n · e^r with |r| <= log(2)/2, and e^r by its series. The C
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

// The probability that w came from the spike. The odds are held at e^most, see passes.py.
inline float in_spike(float w, float c1, float c2, float most) {
  return 1.0f / (1.0f + exponential(at_least(at_most(c2 * (w * w) + c1, most), -87.0f)));
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

// ---- the cut ----

using Key = int32_t;  // a score's bits without the sign: integers in the order of the scores

constexpr Key NO_NUMBER = 0x7f800001, END = NO_NUMBER + 1;  // NaN, whatever its bits, is one score, and the largest

inline Key key_of(float score) {
  Key bits;
  std::memcpy(&bits, &score, 4);
  return std::min(bits & 0x7fffffff, NO_NUMBER);
}

struct Window {  // of keys, and what all threads have seen of it
  Key low, high;
  int shift = 0;  // of a key above `low`, to its bucket
  Key* inside;    // in no order, as far as there is room
  int64_t room, gathered = 0, below = 0, counts[BUCKETS] = {};

  Window(Key low, Key high, Key* inside, int64_t room) : low(low), high(high), inside(inside), room(room) {
    while ((high - low - 1) >> shift >= BUCKETS) shift++;
  }
};

// The scores below the window are counted, those in it counted bucket by bucket and gathered.
template <class Score>
struct Look {
  Window& window;
  int64_t below = 0, counts[BUCKETS] = {};

  explicit Look(Window& window) : window(window) {}

  ~Look() {
    add(window.below, below);
    for (int bucket = 0; bucket < BUCKETS; bucket++)
      if (counts[bucket]) add(window.counts[bucket], counts[bucket]);
  }

  void operator()(const Row& row, int64_t start, int64_t size) {
    blockwise(row, start, size, [&](int64_t at, int length) { look(row, at, length); });
  }

  void look(const Row& row, int64_t start, int length) {
    const float *w = row.weight + start, *v = row.beside + row.step * start;
    const Key low = window.low, high = window.high;
    const Score score;
    Key keys[BLOCK];
    int under = 0, up_to = 0, kept = 0;
    for (int i = 0; i < length; i++) {
      keys[i] = key_of(score(row, w[i], v[i]));
      under += keys[i] < low;
      up_to += keys[i] < high;
    }
    below += under;
    if (up_to == under) return;
    for (int i = 0; i < length; i++) {
      const Key key = keys[i];
      keys[kept] = key;
      kept += key >= low && key < high;
    }
    for (int i = 0; i < kept; i++) counts[(keys[i] - low) >> window.shift]++;
    if (__atomic_load_n(&window.gathered, __ATOMIC_RELAXED) > window.room) return;
    const int64_t to = __atomic_fetch_add(&window.gathered, kept, __ATOMIC_RELAXED);
    if (to + kept <= window.room) std::memcpy(window.inside + to, keys, kept * sizeof(Key));
  }
};

struct Found {
  float value;
  int64_t below;
  int64_t looks;  // passes that it took
};

// The cut under which k scores lie, 0 <= k < how many there are. It is looked for from `low` to `high` first, then on that
// side where it is, in a window that each look makes a thousand times smaller.
template <class Score>
Found find_cut(Row* rows, int64_t count, int threads, int64_t k, float low, float high, Key* inside, int64_t room) {
  Key from = 1, to = END;  // of zeros there may be many
  if (0 < low && key_of(high) - key_of(low) > 1) from = key_of(low), to = key_of(high);
  Found found = {0, 0, 0};
  while (to - from > 1) {
    Window window(from, to, inside, room);
    share(rows, count, threads, Look<Score>(window));
    found.looks++;
    int64_t within = 0, rank = k - window.below;
    for (int64_t bucket : window.counts) within += bucket;
    if (rank < 0) {
      to = from, from = 0;  // none lies below
    } else if (rank >= within) {
      from = to, to = END, found.below = window.below + within;
    } else if (within <= room) {
      std::nth_element(inside, inside + rank, inside + within);
      from = inside[rank], to = from + 1;
      found.below = window.below + std::count_if(inside, inside + rank, [=](Key key) { return key < from; });
    } else {
      const int64_t* bucket = window.counts;
      for (found.below = window.below; found.below + *bucket <= k; bucket++) found.below += *bucket;
      from += Key(bucket - window.counts) << window.shift, to = std::min(to, from + (1 << window.shift));
    }
  }
  std::memcpy(&found.value, &from, 4);
  // A cut that is subnormal, where the processor takes such numbers for zeros (torch.set_flush_denormal).
  if (found.value == 0) found.value = 0, found.below = 0;
  return found;
}

// Weights that score below the cut become zero. All that are zero then are counted, and those that score just the cut.
template <class Score>
void zero_under(Row* rows, int64_t count, int threads, float cut) {
  share(rows, count, threads, [=](Row& row, int64_t start, int64_t size) {
    int64_t zeros = 0, equal = 0;
    blockwise(row, start, size, [&](int64_t at, int length) {
      const Score score;
      float* __restrict w = row.weight + at;
      const float* v = row.beside + row.step * at;
      int zero = 0, same = 0;
      for (int i = 0; i < length; i++) {
        const float s = score(row, w[i], v[i]);
        const float left = s < cut ? 0.0f : w[i];
        zero += left == 0.0f;
        same += s == cut;
        w[i] = left;
      }
      zeros += zero, equal += same;
    });
    add(row.zeros, zeros);
    add(row.equal, equal);
  });
}

// The first weights of a tensor that score just the cut become zero. Returns how many of `most` those are.
template <class Score>
int64_t zero_first(Row& row, float cut, int64_t most) {
  const Score score;
  const int64_t taken = std::min(most, row.equal);
  int64_t left = taken;
  for (int64_t start = 0; start < row.size && left > 0; start += BLOCK) {
    float* w = row.weight + start;
    const float* v = row.beside + row.step * start;
    const int length = std::min<int64_t>(BLOCK, row.size - start);
    int equal = 0;
    for (int i = 0; i < length; i++) equal += score(row, w[i], v[i]) == cut;
    for (int i = 0; i < length && equal > 0 && left > 0; i++) {
      if (score(row, w[i], v[i]) != cut) continue;
      row.zeros += w[i] != 0.0f;
      w[i] = 0.0f;
      equal--, left--;
    }
  }
  return taken;
}

template <class Score>
void zero_below(Row* rows, int64_t count, int threads, float cut, int64_t ties) {
  zero_under<Score>(rows, count, threads, cut);
  for (int64_t r = 0; r < count && ties > 0; r++) ties -= zero_first<Score>(rows[r], cut, ties);
}

}  // namespace

extern "C" {

void mgpp_add_prior_gradient(Row* rows, int64_t count, int threads, float c1, float c2, float most) {
  share(rows, count, threads, [=](Row& row, int64_t start, int64_t size) {
    const float spike = row.spike, slab = row.slab, limit = row.limit;
    blockwise(row, start, size, [&](int64_t at, int length) {
      const float* w = row.weight + at;
      float* __restrict g = row.beside + at;
      for (int i = 0; i < length; i++)
        g[i] += at_least(at_most(w[i] * (in_spike(w[i], c1, c2, most) * spike + slab), limit), -limit);
    });
  });
}

void mgpp_shrink_by_prior(Row* rows, int64_t count, int threads, float c1, float c2, float most) {
  share(rows, count, threads, [=](Row& row, int64_t start, int64_t size) {
    const float spike = row.spike, slab = row.slab, floor = row.floor, limit = row.limit;
    blockwise(row, start, size, [&](int64_t at, int length) {
      float* __restrict w = row.weight + at;
      const float* v = row.beside + at;
      for (int i = 0; i < length; i++) {
        const float weight = w[i], size = std::fabs(weight);
        const float spread = at_least(std::sqrt(v[i]) + floor, TINY);
        const float pull = (size * slab + in_spike(size, c1, c2, most) * size * spike) / spread;
        const float shrunk = at_least(size - at_most(pull, limit), size < LEAST ? size : LEAST);
        w[i] = std::copysign(shrunk, weight);
      }
    });
  });
}

void mgpp_find_cut(Row* rows, int64_t count, int threads, int by_curvature, int64_t k, float low, float high, Key* inside,
                   int64_t room, Found* found) {
  *found = (by_curvature ? find_cut<Curvature> : find_cut<Size>)(rows, count, threads, k, low, high, inside, room);
}

void mgpp_zero_below(Row* rows, int64_t count, int threads, int by_curvature, float cut, int64_t ties) {
  (by_curvature ? zero_below<Curvature> : zero_below<Size>)(rows, count, threads, cut, ties);
}

void mgpp_count_broken(Row* rows, int64_t count, int threads) {
  share(rows, count, threads, [](Row& row, int64_t start, int64_t size) {
    int64_t infinite = 0, nan = 0;
    blockwise(row, start, size, [&](int64_t at, int length) {
      const float* w = row.weight + at;
      int infinities = 0, nans = 0;
      for (int i = 0; i < length; i++) {
        infinities += std::fabs(w[i]) > LARGEST;
        nans += w[i] != w[i];
      }
      infinite += infinities, nan += nans;
    });
    add(row.infinite, infinite);
    add(row.nan, nan);
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
