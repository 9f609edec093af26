/* Attention in decoding: over a hypothesis's own past and over the source.
 *
 * Rows are independent of each other and each is computed by one thread: results do not depend on the number of threads.
 * Shapes: B sentences, N rows (hypotheses, sentence-major), H heads of width K in 16, 32, 64, 128, D = H K, C cells, S source positions.
 */
#include "vectors.h"

#define HIDDEN -1e9f /* added to the score of what may not be seen */

/* x = exp(x - max x) for n numbers in whole vectors; 1 / their sum. */
INLINE float softmax_rate(float *x, i64 n) {
    vec m = load(x), s = {0};
    for (i64 i = LANES; i < n; i += LANES) m = larger(load(x + i), m);
    const vec most = all(largest_of(m));
    for (i64 i = 0; i < n; i += LANES) {
        const vec y = expo(load(x + i) - most);
        store(x + i, y);
        s += y;
    }
    return 1.0f / sum_of(s);
}

/* z = rate * sum_i p_i V_i over n rows of V, K numbers each; row i lies at v + at(i). K is a multiple of LANES, at most WIDEST. */
#define WIDEST 128
#define WEIGHTED(K, n, at)                                              \
    do {                                                                \
        vec a[WIDEST / LANES];                                          \
        for (int c = 0; c < (K) / LANES; c++) a[c] = (vec){0};          \
        for (i64 i = 0; i < (n); i++) {                                 \
            const float w = p[i], *row = v + (at);                      \
            for (int c = 0; c < (K) / LANES; c++) a[c] += w * load(row + c * LANES); \
        }                                                               \
        for (int c = 0; c < (K) / LANES; c++) store(z + c * LANES, a[c] * rate); \
    } while (0)

/* One query over its own cells: z = softmax(q K^T scale) V; rows of K and V lie D apart, cells[i] says which. */
INLINE void over_cells(const float *q, const float *k, const float *v, const i64 *cells, i64 n, i64 D, const int K, float scale, float *p,
                       float *z) {
    vec x[WIDEST / LANES];
    for (int c = 0; c < K / LANES; c++) x[c] = load(q + c * LANES) * scale;
    for (i64 i = 0; i < n; i++) {
        const float *row = k + cells[i] * D;
        vec s = x[0] * load(row);
        for (int c = 1; c < K / LANES; c++) s += x[c] * load(row + c * LANES);
        p[i] = sum_of(s);
    }
    i64 whole = n;
    for (; whole % LANES; whole++) p[whole] = -INFINITY;
    const float rate = softmax_rate(p, whole);
    WEIGHTED(K, n, cells[i] * D);
}

/* Brings the cells closer, all at once: a query's sums wait for each of them. */
INLINE void ahead(const float *k, const float *v, const i64 *cells, i64 n, i64 D) {
    for (i64 i = 0; i < n; i++)
        for (i64 d = 0; d < D; d += LANES) __builtin_prefetch(k + cells[i] * D + d, 0, 2), __builtin_prefetch(v + cells[i] * D + d, 0, 2);
}

/* Self-attention of T new positions of each of N rows, W rows a sentence.
 *
 * q, k, v [N, T, D], their rows some stride apart; keys, values [B, C, D]: position t of row w of a sentence goes to cell
 * start + w T + t; past [N, P]: the cells of each row's past, the new ones last; z [N, T, D]; scratch [threads, P rounded up to LANES]. */
void attend_cells(const float *q, const float *k, const float *v, i64 q_stride, i64 k_stride, i64 v_stride, float *keys, float *values,
                  const i64 *past, float *z, float *scratch, i64 B, i64 W, i64 T, i64 H, i64 K, i64 C, i64 P, i64 start, float scale,
                  int threads) {
    const i64 D = H * K;
#pragma omp parallel num_threads(threads_for(2 * B * W * T * D * P, threads))
    {
        float *p = scratch + omp_get_thread_num() * ((P + LANES - 1) / LANES * LANES);
#pragma omp for schedule(static)
        for (i64 b = 0; b < B; b++) {
            float *k_cells = keys + b * C * D, *v_cells = values + b * C * D;
            for (i64 i = 0; i < W * T; i++) {
                const i64 row = b * W * T + i;
                memcpy(k_cells + (start + i) * D, k + row * k_stride, D * sizeof(float));
                memcpy(v_cells + (start + i) * D, v + row * v_stride, D * sizeof(float));
            }
            for (i64 i = 0; i < W * T; i++) {
                const i64 row = b * W * T + i, *cells = past + (b * W + i / T) * P, seen = P - T + i % T + 1;
                ahead(k_cells, v_cells, cells, seen, D);
                for (i64 h = 0; h < H; h++) {
                    const float *one = q + row * q_stride + h * K, *k_head = k_cells + h * K, *v_head = v_cells + h * K;
                    float *out = z + row * D + h * K;
                    switch (K) {
                    case 64: over_cells(one, k_head, v_head, cells, seen, D, 64, scale, p, out); break;
                    case 32: over_cells(one, k_head, v_head, cells, seen, D, 32, scale, p, out); break;
                    case 16: over_cells(one, k_head, v_head, cells, seen, D, 16, scale, p, out); break;
                    case 128: over_cells(one, k_head, v_head, cells, seen, D, 128, scale, p, out); break;
                    }
                }
            }
        }
    }
}

/* One query over the first n positions of a memory: keys of a head [K, S] (S last), values [S, K], bias [S]; S a multiple of LANES.
 * While it multiplies keys it brings the values closer, and then `next`, the keys to come: memory is what it waits for. */
INLINE void over_memory(const float *q, const float *k, const float *v, const float *bias, i64 n, i64 S, const int K, float scale, float *p,
                        float *z, const float *next) {
    const i64 whole = (n + LANES - 1) / LANES * LANES;
    for (i64 s = 0; s < whole; s += LANES) {
        vec a[4] = {{0}, {0}, {0}, {0}};
        for (int c = 0; c < K; c += 4)
            for (int j = 0; j < 4; j++) {
                a[j] += q[c + j] * load(k + (c + j) * S + s);
                __builtin_prefetch(v + s * K + (c + j) * LANES, 0, 3);
            }
        store(p + s, ((a[0] + a[1]) + (a[2] + a[3])) * scale + load(bias + s));
    }
    const float rate = softmax_rate(p, whole);
    for (i64 i = 0; i < n * K; i += LANES) __builtin_prefetch(next + i, 0, 3); /* about as many as the keys to come have */
    WEIGHTED(K, n, i * K);
}

/* Attention of each sentence's queries over its memory. A sentence has Q queries, or the rows from starts[b] to starts[b + 1].
 * q: rows of D numbers, q_stride apart; z: as many rows [.., D]; keys [B, H, K, S], values [B, H, S, K], bias [B, S];
 * lengths [B]: positions behind which all are hidden; scratch [threads, S]. */
void attend_memory(const float *q, i64 q_stride, const i64 *starts, const float *keys, const float *values, const float *bias,
                   const i64 *lengths, float *z, float *scratch, i64 B, i64 Q, i64 H, i64 K, i64 S, float scale, int threads) {
    const i64 D = H * K;
#pragma omp parallel num_threads(threads_for(2 * B * Q * D * S, threads))
    {
        float *p = scratch + omp_get_thread_num() * S;
#pragma omp for schedule(static)
        for (i64 bh = 0; bh < B * H; bh++) {
            const i64 b = bh / H, h = bh % H;
            const float *k = keys + bh * K * S, *v = values + bh * S * K, *hide = bias + b * S;
            const float *next = bh + 1 < B * H ? k + K * S : k;
            const i64 from = starts ? starts[b] : b * Q, to = starts ? starts[b + 1] : from + Q;
            for (i64 i = from; i < to; i++) {
                const float *one = q + i * q_stride + h * K;
                float *out = z + i * D + h * K;
                switch (K) {
                case 64: over_memory(one, k, v, hide, lengths[b], S, 64, scale, p, out, next); break;
                case 32: over_memory(one, k, v, hide, lengths[b], S, 32, scale, p, out, next); break;
                case 16: over_memory(one, k, v, hide, lengths[b], S, 16, scale, p, out, next); break;
                case 128: over_memory(one, k, v, hide, lengths[b], S, 128, scale, p, out, next); break;
                }
            }
        }
    }
}

/* One head's keys and values of a sentence, k, v [n, ..] some stride apart, as `over_memory` reads them; zeros behind the n-th position. */
INLINE void lay_out(const float *k, const float *v, i64 k_stride, i64 v_stride, float *keys, float *values, i64 n, i64 S, const int K) {
    for (i64 s = 0; s < n; s++) {
        memcpy(values + s * K, v + s * v_stride, K * sizeof(float));
        for (int c = 0; c < K; c++) keys[c * S + s] = k[s * k_stride + c];
    }
    memset(values + n * K, 0, (S - n) * K * sizeof(float));
    for (int c = 0; c < K; c++) memset(keys + c * S + n, 0, (S - n) * sizeof(float));
}

/* bias [n] and HIDDEN behind it; the number of positions up to the last that may be seen, at least 1. */
static i64 lay_out_bias(const float *bias, float *hide, i64 n, i64 S) {
    i64 seen = 1;
    for (i64 s = 0; s < S; s++) {
        hide[s] = s >= n ? HIDDEN : bias ? bias[s] : 0;
        if (hide[s] > HIDDEN / 2) seen = s + 1;
    }
    return seen;
}

/* A memory as `attend_memory` reads it: of rows k, v [starts[B], D], some stride apart, those of sentence b from starts[b] on, and bias
 * [B, given], nothing hidden where it is NULL -> keys [B, H, K, S], values [B, H, S, K], hide [B, S], lengths [B]. */
void lay_out_memory(const float *k, const float *v, i64 k_stride, i64 v_stride, const i64 *starts, const float *bias, float *keys,
                    float *values, float *hide, i64 *lengths, i64 B, i64 H, i64 K, i64 S, i64 given, int threads) {
    const i64 D = H * K;
#pragma omp parallel for schedule(static) num_threads(threads_for(B * S * D, threads))
    for (i64 b = 0; b < B; b++) {
        const i64 n = starts[b + 1] - starts[b];
        lengths[b] = lay_out_bias(bias ? bias + b * given : NULL, hide + b * S, n, S);
        for (i64 h = 0; h < H; h++) {
            const i64 to = (b * H + h) * K * S;
            lay_out(k + starts[b] * k_stride + h * K, v + starts[b] * v_stride + h * K, k_stride, v_stride, keys + to, values + to, n, S, K);
        }
    }
}
