/* y = s_x s_w (Q_x Q_w) + b with 8-bit inputs and weights and exact sums.
 *
 * Inputs are rounded row by row, weights [M, D] beforehand, both to -127 .. 127. One step takes GROUP inputs of a row and GROUP weights of each
 * of LANES outputs; weights lie by panels of PANEL outputs, [panels][D / GROUP][PANEL][GROUP]. Processors with VNNI multiply bytes by fours,
 * inputs unsigned: they are SHIFT too large, and offset = SHIFT * (sum of an output's weights) is what this adds to a sum. AVX2 adds products of
 * an unsigned and a signed byte by pairs, cut off at 16 bits, which two products of 127 and 127 do not reach: the sign of weights goes to inputs.
 * Others multiply 16-bit numbers by pairs.
 */
#include "vectors.h"

#if defined(__AVX512VNNI__)
#define GROUP 4
#define SHIFT 128
typedef uint8_t input;
typedef int8_t weight;
#elif defined(__AVX2__) && !defined(__AVX512BW__)
#define GROUP 4
#define SHIFT 0
typedef int8_t input, weight;
#else
#define GROUP 2
#define SHIFT 0
typedef int16_t input, weight;
#endif

/* sums += the products of a group of inputs, in each lane the same, with the weights of each output, added up. positive: no input is < 0. */
INLINE mask dot(mask sums, mask inputs, mask weights, const int positive) {
#if defined(__AVX512VNNI__)
    /* Written as the instruction: of its intrinsic gcc 12 keeps the sums of a tile in memory instead of in registers. */
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(inputs), "v"(weights));
    return sums;
#elif defined(__AVX512BW__)
    return sums + (mask)_mm512_madd_epi16((__m512i)inputs, (__m512i)weights);
#elif defined(__AVX2__)
    const __m256i x = (__m256i)inputs, w = (__m256i)weights;
    const __m256i pairs = positive ? _mm256_maddubs_epi16(x, w) : _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return sums + (mask)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__SSE2__)
    return sums + (mask)_mm_madd_epi16((__m128i)inputs, (__m128i)weights);
#else
    /* the lower and the upper half of each lane, with their signs */
    return sums + (inputs << 16 >> 16) * (weights << 16 >> 16) + (inputs >> 16) * (weights >> 16);
#endif
}

/* Inputs that are taken together: D is a multiple. */
int group8(void) { return GROUP; }

/* W [M, D] of 8-bit numbers by panels, and the offsets; zeros beyond M. packed: panels * PANEL * D 16-bit numbers. */
void pack8(const int8_t *w, weight *packed, int32_t *offset, i64 M, i64 D) {
    for (i64 m = 0; m < (M + PANEL - 1) / PANEL * PANEL; m++) {
        weight *to = packed + m / PANEL * PANEL * D + m % PANEL * GROUP;
        offset[m] = 0;
        for (i64 d = 0; d < D; d++) {
            const int8_t one = m < M ? w[m * D + d] : 0;
            to[d / GROUP * PANEL * GROUP + d % GROUP] = one;
            offset[m] += SHIFT * one;
        }
    }
}

/* max |x| / 127 of a row of D >= LANES numbers; NaN where it has one. signs: below 0 in some lane where some x is. */
static float scale_of(const float *x, i64 D, mask *signs) {
    vec most = {0}, zero = {0};
    for (i64 d = 0; d < D; d += LANES) {
        const vec v = load(x + (d + LANES <= D ? d : D - LANES));
        most = larger((vec)((mask)v & INT32_MAX), most), zero += v * 0, *signs |= (mask)v;
    }
    const float largest = largest_of(most);
    return (largest > 1e-30f ? largest : 1e-30f) / 127 + sum_of(zero);
}

/* q = round(x / s) + SHIFT, anything where s is NaN. */
static void quantise(const float *restrict x, input *restrict q, i64 D, float s) {
    const float rate = 1 / s;
    for (i64 d = 0; d < D; d++) q[d] = (input)((int32_t)rintf(x[d] * rate) + SHIFT);
}

/* Sums -> the map's outputs from the m-th on, for a row whose inputs' scale is s. */
INLINE vec real(mask sums, const linear_map *map, i64 m, float s) {
    const vec v = __builtin_convertvector(sums - *(const mask *)(map->offset + m), vec) * load(map->scale + m) * all(s) + load(map->bias + m);
    return map->relu ? choose(v < all(0), all(0), v) : v;
}

/* One panel of outputs of some rows x [rows, D], s their scales; `next`: the panel to come, brought closer meanwhile. */
INLINE void tile(const int rows, const int positive, const input *x, const float *s, const linear_map *map, i64 p, const weight *next, float *y) {
    const i64 D = map->inputs, M = map->outputs, from = p * PANEL;
    const weight *w = (const weight *)map->weights + from * D;
    mask acc[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (mask){0};
    for (i64 d = 0; d < D; d += GROUP) {
        const mask w0 = *(const mask *)(w + d * PANEL), w1 = *(const mask *)(w + d * PANEL + LANES * GROUP);
        __builtin_prefetch(next + d * PANEL, 0, 2), __builtin_prefetch(next + d * PANEL + LANES * GROUP, 0, 2);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            int32_t group;
            memcpy(&group, x + r * D + d, sizeof group);
            const mask a = group - (mask){0};
            acc[r][0] = dot(acc[r][0], a, w0, positive), acc[r][1] = dot(acc[r][1], a, w1, positive);
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        float edge[PANEL], *to = from + PANEL <= M ? y + r * M + from : edge;
        store(to, real(acc[r][0], map, from, s[r]));
        store(to + LANES, real(acc[r][1], map, from + LANES, s[r]));
        if (to == edge) memcpy(y + r * M + from, edge, (M - from) * sizeof(float));
    }
}

static void any_tile(int rows, int positive, const input *x, const float *s, const linear_map *map, i64 p, const weight *next, float *y) {
#define CASE(n) case n: positive ? tile(n, 1, x, s, map, p, next, y) : tile(n, 0, x, s, map, p, next, y); break;
    switch (rows) { ROWS_CASES(CASE) }
}

/* y [N, M] = map of x [N, D]; scratch [N, D + LANES]. */
void linear8(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads) {
    const i64 D = map->inputs, M = map->outputs, panels = (M + PANEL - 1) / PANEL, tiles = (N + ROWS - 1) / ROWS;
    float *s = scratch;
    input *q = (input *)(scratch + N);
    threads = threads_for(N * D * M, threads);
    int negative = 0;
#pragma omp parallel num_threads(threads) reduction(| : negative)
    {
        mask signs = {0};
#pragma omp for schedule(static)
        for (i64 n = 0; n < N; n++) s[n] = scale_of(x + n * D, D, &signs);
#pragma omp for schedule(static)
        for (i64 n = 0; n < N; n++) quantise(x + n * D, q + n * D, D, s[n]);
        for (int i = 0; i < LANES; i++) negative |= signs[i] < 0;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (i64 p = 0; p < panels; p++) {
        const weight *next = (const weight *)map->weights + (p + 1 < panels ? p + 1 : p) * PANEL * D;
        for (i64 t = 0, n = 0; t < tiles; t++) {
            const i64 rows = (N - n + tiles - t - 1) / (tiles - t);
            any_tile(rows, !negative, q + n * D, s + n, map, p, next, y + n * M);
            n += rows;
        }
    }
}
