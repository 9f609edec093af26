/* Vectors of LANES numbers, as wide as the processor's registers: wider ones would be kept in memory. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#if defined(__AVX512BW__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

typedef int64_t i64;
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE vec load(const float *x) { return *(const vec *)x; }
INLINE void store(float *x, vec v) { *(vec *)x = v; }
INLINE vec all(float x) { return x - (vec){0}; }
INLINE vec choose(mask m, vec yes, vec no) { return (vec)((m & (mask)yes) | (~m & (mask)no)); }
INLINE vec larger(vec a, vec b) { return choose(a > b, a, b); }

INLINE float sum_of(vec v) {
    float x[LANES], s[4] = {0};
    store(x, v);
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 4; j++) s[j] += x[i + j];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

INLINE float largest_of(vec v) {
    float m = v[0];
    for (int i = 1; i < LANES; i++) m = v[i] > m ? v[i] : m;
    return m;
}
