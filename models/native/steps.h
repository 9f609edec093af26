/* What the C files of this folder call of each other. Shapes and meanings stand at the definitions. */
#pragma once
#include "vectors.h"

#define HIDDEN -1e9f /* added to the score of what may not be seen */
#define PANEL (2 * LANES) /* outputs of a linear map whose weights lie together */

/* Rows of a tile: with PANEL outputs each, as many sums as there are registers for beside two of weights and one of inputs. */
#if defined(__AVX512BW__) || defined(__aarch64__)
#define ROWS 14
#define ROWS_CASES(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)
#else
#define ROWS 6
#define ROWS_CASES(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#endif

/* A linear map from `inputs` to `outputs` numbers, and max(., 0) behind it with relu. Weights by panels: fp32, or 8 bits where there are
 * scales; scale, offset, bias: panels * PANEL numbers. */
typedef struct {
    const void *weights;
    const float *bias, *scale;
    const int32_t *offset;
    i64 inputs, outputs, relu;
} linear_map;

void attend_cells(const float *q, const float *k, const float *v, i64 q_stride, i64 k_stride, i64 v_stride, float *keys, float *values,
                  const i64 *past, float *z, float *scratch, i64 B, i64 W, i64 T, i64 H, i64 K, i64 C, i64 P, i64 start, float scale,
                  int threads);
void attend_memory(const float *q, const float *keys, const float *values, const float *bias, const i64 *lengths, float *z, float *scratch,
                   i64 B, i64 Q, i64 H, i64 K, i64 S, float scale, int threads);
void layer_norm(const float *x, const float *weight, const float *bias, float *y, i64 N, i64 D, float eps, int threads);
void add_rows(const float *x, const float *y, float *z, i64 size, int threads);
void linear(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads);
void linear8(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads);

/* y [N, outputs] = map of x [N, inputs]; scratch [N, inputs + LANES]. */
INLINE void apply(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads) {
    (map->scale ? linear8 : linear)(map, x, y, scratch, N, threads);
}
