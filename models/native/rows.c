/* What is done to each row by itself: norms and sums. Shapes: rows [N, D]. */
#include "steps.h"

/* Sum of n numbers. */
INLINE float sum(const float *x, i64 n) {
    vec a = {0}, b = {0};
    i64 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) a += load(x + i), b += load(x + i + LANES);
    float s = sum_of(a + b);
    for (; i < n; i++) s += x[i];
    return s;
}

/* y = (x - mean) / sqrt(variance + eps) * weight + bias, rows [N, D], D a multiple of LANES. */
void layer_norm(const float *x, const float *weight, const float *bias, float *y, i64 N, i64 D, float eps, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (i64 n = 0; n < N; n++) {
        const float *row = x + n * D;
        const vec mean = all(sum(row, D) / D);
        vec squares = {0};
        for (i64 d = 0; d < D; d += LANES) {
            const vec off = load(row + d) - mean;
            squares += off * off;
        }
        const vec rate = all(1.0f / sqrtf(sum_of(squares) / D + eps));
        for (i64 d = 0; d < D; d += LANES) store(y + n * D + d, (load(row + d) - mean) * rate * load(weight + d) + load(bias + d));
    }
}

/* z = x + y, so many numbers. */
void add_rows(const float *x, const float *y, float *z, i64 size, int threads) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (i64 i = 0; i < size; i++) z[i] = x[i] + y[i];
}
