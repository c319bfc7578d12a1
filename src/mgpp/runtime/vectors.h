// What the kernels here compute with: vectors of the compiler's own (GCC, Clang), as wide as the target's registers, so
// that one source serves every machine.
#pragma once

#include <cstdint>
#include <utility>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, REGISTERS = 32;
constexpr const char* VECTORS = "AVX-512";
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32, REGISTERS = 16;
constexpr const char* VECTORS = "AVX2";
#else
constexpr int VECTOR_BYTES = 16, REGISTERS = 16;
constexpr const char* VECTORS = "16-byte vectors";
#endif

constexpr int L = VECTOR_BYTES / sizeof(float);  // lanes of a vector

typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));
typedef float Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4)));
typedef int32_t Lanes __attribute__((vector_size(VECTOR_BYTES)));

inline int64_t parts(int64_t total, int64_t size) { return (total + size - 1) / size; }

// ---- transposing L × L floats ----

template <int... M>
inline Vector shuffled(Vector a, Vector b) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, M...);
#else
  return __builtin_shuffle(a, b, Lanes{M...});
#endif
}

template <int S, int... I>
inline void exchange(Vector& a, Vector& b, std::integer_sequence<int, I...>) {
  Vector low = shuffled<((I & S) ? L + I - S : I)...>(a, b);
  b = shuffled<((I & S) ? L + I : I + S)...>(a, b);
  a = low;
}

// Swaps the off-diagonal quarters, then those of the quarters, and so on.
template <int S>
inline void exchange_all(Vector* v) {
#pragma GCC unroll 16
  for (int i = 0; i < L; i++)
    if (!(i & S)) exchange<S>(v[i], v[i + S], std::make_integer_sequence<int, L>{});
  if constexpr (S > 1) exchange_all<S / 2>(v);
}

inline void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  Vector v[L];
#pragma GCC unroll 16
  for (int i = 0; i < L; i++) v[i] = *(const Unaligned*)(from + i * from_stride);
  exchange_all<L / 2>(v);
#pragma GCC unroll 16
  for (int i = 0; i < L; i++) *(Unaligned*)(to + i * to_stride) = v[i];
}

// ---- a tile of V · L tokens, of which the last may be missing: (token × column) to (column × token), and back ----

template <int V>
void pack(const float* x, int64_t tokens, int64_t stride, int64_t from, int64_t to, float* packed) {
  constexpr int WIDTH = V * L;
  for (int u = 0; u < V; u++) {
    const int64_t left = tokens - u * L;
    const float* source = x + u * L * stride;
    int64_t k = from;
    if (left >= L)
      for (; k + L <= to; k += L) transpose(source + k, stride, packed + k * WIDTH + u * L, WIDTH);
    for (; k < to; k++)
      for (int j = 0; j < L; j++) packed[k * WIDTH + u * L + j] = j < left ? source[j * stride + k] : 0.0f;
  }
}

template <int V>
void unpack(const float* packed, int64_t tokens, int64_t stride, int64_t columns, float* y) {
  constexpr int WIDTH = V * L;
  for (int u = 0; u < V; u++) {
    const int64_t left = tokens - u * L;
    float* target = y + u * L * stride;
    int64_t k = 0;
    if (left >= L)
      for (; k + L <= columns; k += L) transpose(packed + k * WIDTH + u * L, WIDTH, target + k, stride);
    for (; k < columns; k++)
      for (int j = 0; j < L && j < left; j++) target[j * stride + k] = packed[k * WIDTH + u * L + j];
  }
}

}  // namespace
