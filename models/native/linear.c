/* y = x W^T + b for few rows: weights packed by panels of PANEL outputs, [panels][D][PANEL]; a tile of rows times a panel stays in registers. */
#include "vectors.h"

#define PADDED(D) ((D) % 512 ? (D) : (D) + LANES) /* rows that lie a power of two apart would share a few lines of the cache */

#define LINE 16 /* numbers of a line of the cache */

/* max(v, 0); NaN stays. */
INLINE vec rectified(vec v) { return choose(v < all(0), all(0), v); }

INLINE void tile(const int rows, const float *x, i64 stride, const float *w, const float *ahead, i64 step, const float *b, float *y,
                 i64 D, i64 y_stride, i64 width, int relu) {
    vec acc[ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) acc[r][0] = load(b), acc[r][1] = load(b + LANES);
    i64 line = 0;
    for (i64 d = 0; d < D; d++, line += step) {
        const vec w0 = load(w + d * PANEL), w1 = load(w + d * PANEL + LANES);
        __builtin_prefetch(ahead + (line >> 8) * LINE, 0, 3);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            const float a = x[r * stride + d];
            acc[r][0] += a * w0, acc[r][1] += a * w1;
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        float edge[PANEL], *to = width < PANEL ? edge : y + r * y_stride;
        if (relu) acc[r][0] = rectified(acc[r][0]), acc[r][1] = rectified(acc[r][1]);
        store(to, acc[r][0]), store(to + LANES, acc[r][1]);
        if (width < PANEL) memcpy(y + r * y_stride, edge, width * sizeof(float));
    }
}

static void any_tile(int rows, const float *x, i64 stride, const float *w, const float *ahead, i64 step, const float *b, float *y,
                     i64 D, i64 y_stride, i64 width, int relu) {
#define CASE(n) case n: tile(n, x, stride, w, ahead, step, b, y, D, y_stride, width, relu); break;
    switch (rows) { ROWS_CASES(CASE) }
}

/* y [N, M] = map of x [N, D]; scratch [N, PADDED(D)]. */
void linear(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads) {
    if (map->scale) {
        linear8(map, x, y, scratch, N, threads);
        return;
    }
    const float *packed = map->weights, *bias = map->bias;
    const i64 D = map->inputs, M = map->outputs, panels = (M + PANEL - 1) / PANEL, tiles = (N + ROWS - 1) / ROWS, stride = PADDED(D);
    if (stride != D) {
        for (i64 n = 0; n < N; n++) memcpy(scratch + n * stride, x + n * D, D * sizeof(float));
        x = scratch;
    }
#pragma omp parallel for schedule(static) num_threads(threads_for(N * D * M, threads))
    for (i64 p = 0; p < panels; p++) {
        const float *w = packed + p * D * PANEL, *next = p + 1 < panels ? w + D * PANEL : w;
        const i64 width = (p + 1) * PANEL <= M ? PANEL : M - p * PANEL, step = (PANEL / LINE << 8) / tiles;
        for (i64 t = 0, n = 0; t < tiles; t++) {
            const i64 rows = (N - n + tiles - t - 1) / (tiles - t);
            any_tile(rows, x + n * stride, stride, w, next + t * D / tiles * PANEL, step, bias + p * PANEL, y + n * M + p * PANEL, D, M, width,
                     map->relu);
            n += rows;
        }
    }
}

/* Outputs of a panel. */
int panel(void) { return PANEL; }

/* W [M, D] by panels, zeros beyond M. */
void pack(const float *w, float *packed, i64 M, i64 D) {
    for (i64 p = 0; p * PANEL < M; p++)
        for (i64 d = 0; d < D; d++)
            for (i64 i = 0; i < PANEL; i++) packed[(p * D + d) * PANEL + i] = p * PANEL + i < M ? w[(p * PANEL + i) * D + d] : 0;
}
