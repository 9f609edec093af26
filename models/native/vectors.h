/* What the C files of this folder share: vectors of LANES numbers, as wide as the processor's registers (wider ones would be kept in memory),
 * their exponential, and the form of a linear map. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifdef _OPENMP
extern int omp_get_thread_num(void);
#else
static inline int omp_get_thread_num(void) { return 0; }
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
INLINE vec larger(vec a, vec b) {
#if LANES == 16
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return choose(a > b, a, b);
#endif
}

INLINE float sum_of(vec v) {
    float x[LANES], s[4] = {0};
    store(x, v);
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 4; j++) s[j] += x[i + j];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* By halves, not one by one: each comparison waits for the one before. */
INLINE float largest_of(vec v) {
    float x[LANES];
    store(x, v);
#pragma GCC unroll 4
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x[i] = x[i + half] > x[i] ? x[i + half] : x[i];
    return x[0];
}

/* exp(x) to 2 units in the last place, 2^-126 below -87.3: Cody and Waite's reduction, a polynomial of degree 6; NaN stays NaN. */
INLINE vec expo(vec x) {
    x = choose(x < all(-87.3f), all(-87.3f), x);
    x = choose(x > all(88.0f), all(88.0f), x);
    const vec t = x * 1.44269504f + 12582912.0f, n = t - 12582912.0f, r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (vec)(((mask)t + 127) << 23);
}

#define PANEL (2 * LANES) /* outputs of a linear map whose weights lie together */

/* Rows of a tile: with PANEL outputs each, as many sums as there are registers for beside two of weights and one of inputs. */
#if defined(__AVX512BW__) || defined(__aarch64__)
#define ROWS 14
#define ROWS_CASES(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
#else
#define ROWS 6
#define ROWS_CASES(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#endif

/* Threads for some operations, at most so many: starting one for less than some 20 microseconds costs more than it brings. */
INLINE int threads_for(i64 operations, int most) {
    const i64 fit = operations >> 19;
    return fit < 1 ? 1 : fit < most ? (int)fit : most;
}

/* A linear map from `inputs` to `outputs` numbers, and max(., 0) behind it with relu. Weights by panels: fp32, or 8 bits where there are
 * scales; scale, offset, bias: panels * PANEL numbers. */
typedef struct {
    const void *weights;
    const float *bias, *scale;
    const int32_t *offset;
    i64 inputs, outputs, relu;
} linear_map;

void linear(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads);
void linear8(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads);
void attend_cells(const float *q, const float *k, const float *v, i64 q_stride, i64 k_stride, i64 v_stride, float *keys, float *values,
                  const i64 *past, float *z, float *scratch, i64 B, i64 W, i64 T, i64 H, i64 K, i64 C, i64 P, i64 start, float scale,
                  int threads);
void attend_memory(const float *q, i64 q_stride, const i64 *starts, const float *keys, const float *values, const float *bias,
                   const i64 *lengths, float *z, float *scratch, i64 B, i64 Q, i64 H, i64 K, i64 S, float scale, int threads);
