/* What is done to each row by itself: norms, sums, 8-bit rounding. Shapes: rows [N, D]. */
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

/* q = round(x / s) + 128 with s = max |x| / 127 of each row [N, D]; s is NaN where x has one. */
void quantise(const float *x, uint8_t *q, float *scale, i64 N, i64 D, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (i64 n = 0; n < N; n++) {
        const float *row = x + n * D;
        uint8_t *out = q + n * D;
        float most = 0;
        int broken = 0;
#pragma omp simd reduction(max : most) reduction(+ : broken)
        for (i64 d = 0; d < D; d++) most = fabsf(row[d]) > most ? fabsf(row[d]) : most, broken += row[d] != row[d];
        const float s = broken ? NAN : (most > 1e-30f ? most : 1e-30f) / 127, rate = broken ? 0 : 1.0f / s;
        scale[n] = s;
#pragma omp simd
        for (i64 d = 0; d < D; d++) out[d] = (uint8_t)(int32_t)((broken ? 0 : row[d]) * rate + 128.5f);
    }
}

/* y = s y + bias, and max(y, 0) with relu; rows [N, D]. */
void dequantise(float *y, const float *scale, const float *bias, i64 N, i64 D, int relu, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (i64 n = 0; n < N; n++) {
        float *row = y + n * D;
        const float s = scale[n];
        if (relu) {
#pragma omp simd
            for (i64 d = 0; d < D; d++) {
                const float v = row[d] * s + bias[d];
                row[d] = v < 0 ? 0 : v; /* NaN stays */
            }
        } else {
#pragma omp simd
            for (i64 d = 0; d < D; d++) row[d] = row[d] * s + bias[d];
        }
    }
}
