/* y = s_x s_w (Q_x Q_w) + b with 8-bit inputs and weights and exact sums, on processors that multiply bytes by fours (AVX512-VNNI).
 *
 * Inputs are rounded row by row (`quantise`: unsigned, 128 too large), weights [M, D] beforehand (signed). Weights lie by panels of PANEL
 * outputs, [panels][D / 4][PANEL][4]: one instruction takes four inputs of a row and four weights of each of LANES outputs.
 * offset = 128 * (sum of an output's weights): what inputs too large by 128 add to a sum.
 */
#include "steps.h"

#define ROWS 14 /* of a tile: with PANEL outputs each, as many sums as there are registers for */
#define FOUR 4

/* Outputs of a panel; 0 where the processor lacks the instruction. */
int panel8(void) {
#ifdef __AVX512VNNI__
    return PANEL;
#else
    return 0;
#endif
}

/* W [M, D] of 8-bit numbers by panels, and the offsets; zeros beyond M. D is a multiple of FOUR. */
void pack8(const int8_t *w, int8_t *packed, int32_t *offset, i64 M, i64 D) {
    for (i64 m = 0; m < (M + PANEL - 1) / PANEL * PANEL; m++) {
        int8_t *to = packed + m / PANEL * PANEL * D + m % PANEL * FOUR;
        offset[m] = 0;
        for (i64 d = 0; d < D; d++) {
            const int8_t one = m < M ? w[m * D + d] : 0;
            to[d / FOUR * PANEL * FOUR + d % FOUR] = one;
            offset[m] += 128 * one;
        }
    }
}

#ifdef __AVX512VNNI__

/* sums += the products of four inputs of a row, in each lane the same, with four weights of each output, added up. Written as the
 * instruction: of its intrinsic gcc 12 keeps the sums of a tile in memory instead of in registers. */
INLINE mask dot(mask sums, mask four, mask weights) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(four), "v"(weights));
    return sums;
}

/* Sums -> the map's outputs from the m-th on, for a row whose inputs' scale is s. */
INLINE vec real(mask sums, const linear_map *map, i64 m, float s) {
    const vec v = __builtin_convertvector(sums - *(const mask *)(map->offset + m), vec) * load(map->scale + m) * all(s) + load(map->bias + m);
    return map->relu ? choose(v < all(0), all(0), v) : v;
}

/* One panel of outputs of some rows x [rows, D] of bytes, s their scales; `next`: the panel to come, brought closer meanwhile. */
INLINE void tile(const int rows, const uint8_t *x, const float *s, const linear_map *map, i64 p, const int8_t *next, float *y) {
    const i64 D = map->inputs, M = map->outputs, from = p * PANEL;
    const int8_t *w = (const int8_t *)map->weights + from * D;
    mask acc[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = (mask){0};
    for (i64 d = 0; d < D; d += FOUR) {
        const mask w0 = *(const mask *)(w + d * PANEL), w1 = *(const mask *)(w + d * PANEL + LANES * FOUR);
        __builtin_prefetch(next + d * PANEL, 0, 2), __builtin_prefetch(next + d * PANEL + LANES * FOUR, 0, 2);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, x + r * D + d, FOUR);
            const mask a = four - (mask){0};
            acc[r][0] = dot(acc[r][0], a, w0), acc[r][1] = dot(acc[r][1], a, w1);
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

static void any_tile(int rows, const uint8_t *x, const float *s, const linear_map *map, i64 p, const int8_t *next, float *y) {
#define CASE(n) case n: tile(n, x, s, map, p, next, y); break;
    switch (rows) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
    }
}

/* y [N, M] = map of x [N, D]; scratch [N, D + LANES]. */
void linear8(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads) {
    const i64 D = map->inputs, M = map->outputs, panels = (M + PANEL - 1) / PANEL, tiles = (N + ROWS - 1) / ROWS;
    float *s = scratch;
    uint8_t *q = (uint8_t *)(scratch + N);
    quantise(x, q, s, N, D, threads);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (i64 p = 0; p < panels; p++) {
        const int8_t *next = (const int8_t *)map->weights + (p + 1 < panels ? p + 1 : p) * PANEL * D;
        for (i64 t = 0, n = 0; t < tiles; t++) {
            const i64 rows = (N - n + tiles - t - 1) / (tiles - t);
            any_tile(rows, q + n * D, s + n, map, p, next, y + n * M);
            n += rows;
        }
    }
}
#else
void linear8(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads) {}
#endif
