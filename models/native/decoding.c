/* Steps of decoding that a library has no one call for; see models/native/__init__.py.
 *
 * Rows are independent of each other and each is computed by one thread: results do not depend on the number of threads.
 * Shapes: B sentences, N rows (hypotheses, sentence-major), H heads of width K in 16, 32, 64, 128, D = H K, C cells, S source positions, V words.
 */
#include "vectors.h"

#ifdef _OPENMP
extern int omp_get_thread_num(void);
#else
static int omp_get_thread_num(void) { return 0; }
#endif

#define BLOCK 64 /* words of which only the largest is looked at first */

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

/* Sum and largest of n numbers. */
INLINE float sum(const float *x, i64 n) {
    vec a = {0}, b = {0};
    i64 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) a += load(x + i), b += load(x + i + LANES);
    float s = sum_of(a + b);
    for (; i < n; i++) s += x[i];
    return s;
}

INLINE float largest(const float *x, i64 n) {
    vec a = all(-INFINITY), b = a;
    i64 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) a = larger(load(x + i), a), b = larger(load(x + i + LANES), b);
    float m = largest_of(larger(a, b));
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

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

/* Self-attention of T new positions of each of N rows, W rows a sentence.
 *
 * q, k, v [N, T, D], their rows some stride apart; keys, values [B, C, D]: position t of row w of a sentence goes to cell
 * start + w T + t; past [N, P]: the cells of each row's past, the new ones last; z [N, T, D]; scratch [threads, P rounded up to LANES]. */
void attend_cells(const float *q, const float *k, const float *v, i64 q_stride, i64 k_stride, i64 v_stride, float *keys, float *values,
                  const i64 *past, float *z, float *scratch, i64 B, i64 W, i64 T, i64 H, i64 K, i64 C, i64 P, i64 start, float scale,
                  int threads) {
    const i64 D = H * K;
#pragma omp parallel num_threads(threads)
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

/* One query over the first n positions of a memory: keys of a head [K, S] (S last), values [S, K], bias [S]; S a multiple of LANES. */
INLINE void over_memory(const float *q, const float *k, const float *v, const float *bias, i64 n, i64 S, const int K, float scale, float *p,
                        float *z) {
    const i64 whole = (n + LANES - 1) / LANES * LANES;
    for (i64 s = 0; s < whole; s += LANES) {
        vec a[4] = {{0}, {0}, {0}, {0}};
        for (int c = 0; c < K; c += 4)
            for (int j = 0; j < 4; j++) a[j] += q[c + j] * load(k + (c + j) * S + s);
        store(p + s, ((a[0] + a[1]) + (a[2] + a[3])) * scale + load(bias + s));
    }
    const float rate = softmax_rate(p, whole);
    WEIGHTED(K, n, i * K);
}

/* Attention of Q queries a sentence over its memory: q [B, Q, D], keys [B, H, K, S], values [B, H, S, K], bias [B, S], z [B, Q, D];
 * lengths [B]: positions behind which all are hidden; scratch [threads, S]. */
void attend_memory(const float *q, const float *keys, const float *values, const float *bias, const i64 *lengths, float *z, float *scratch,
                   i64 B, i64 Q, i64 H, i64 K, i64 S, float scale, int threads) {
    const i64 D = H * K;
#pragma omp parallel num_threads(threads)
    {
        float *p = scratch + omp_get_thread_num() * S;
#pragma omp for schedule(static)
        for (i64 bh = 0; bh < B * H; bh++) {
            const i64 b = bh / H, h = bh % H;
            const float *k = keys + bh * K * S, *v = values + bh * S * K, *hide = bias + b * S;
            for (i64 i = 0; i < Q; i++) {
                const float *one = q + (b * Q + i) * D + h * K;
                float *out = z + (b * Q + i) * D + h * K;
                switch (K) {
                case 64: over_memory(one, k, v, hide, lengths[b], S, 64, scale, p, out); break;
                case 32: over_memory(one, k, v, hide, lengths[b], S, 32, scale, p, out); break;
                case 16: over_memory(one, k, v, hide, lengths[b], S, 16, scale, p, out); break;
                case 128: over_memory(one, k, v, hide, lengths[b], S, 128, scale, p, out); break;
                }
            }
        }
    }
}

/* Sum of exp(x - m) over n numbers. */
INLINE float exponentials(const float *x, float m, i64 n) {
    vec a = {0}, b = {0};
    i64 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) a += expo(load(x + i) - m), b += expo(load(x + i + LANES) - m);
    float s = sum_of(a + b);
    for (; i < n; i++) s += expf(x[i] - m);
    return s;
}

/* log-softmax of logits [N, V], and the `count` best words of each row: value, word [N, count], best first, of equal values the lower word.
 *
 * Words in banned [n_banned] and repeated [N, R] count in the softmax and are not chosen. special [N]: log-probability of word `eos` before
 * that. At the end logits are changed. scratch [threads, blocks]. */
void best_words(float *logits, const i64 *banned, const i64 *repeated, float *value, i64 *word, float *special, float *scratch, i64 N, i64 V,
                i64 n_banned, i64 R, i64 count, i64 eos, int threads) {
    const i64 blocks = (V + BLOCK - 1) / BLOCK;
#pragma omp parallel num_threads(threads)
    {
        float *top = scratch + omp_get_thread_num() * blocks;
#pragma omp for schedule(static)
        for (i64 n = 0; n < N; n++) {
            float *x = logits + n * V, m = -INFINITY;
            for (i64 b = 0; b < blocks; b++) {
                top[b] = largest(x + b * BLOCK, (b + 1) * BLOCK <= V ? BLOCK : V - b * BLOCK);
                m = top[b] > m ? top[b] : m;
            }
            const float norm = m + logf(exponentials(x, m, V));
            special[n] = x[eos] - norm;
            for (i64 i = 0; i < n_banned + R; i++) {
                const i64 w = i < n_banned ? banned[i] : repeated[n * R + i - n_banned], from = w / BLOCK * BLOCK;
                x[w] = -INFINITY;
                top[w / BLOCK] = largest(x + from, from + BLOCK <= V ? BLOCK : V - from);
            }
            float *v = value + n * count;
            i64 *w = word + n * count, filled = 0;
            for (i64 b = 0; b < blocks; b++) {
                if (filled == count && !(top[b] - norm > v[count - 1])) continue;
                const i64 end = (b + 1) * BLOCK < V ? (b + 1) * BLOCK : V;
                for (i64 i = b * BLOCK; i < end; i++) {
                    const float y = x[i] - norm;
                    if (filled == count && !(y > v[count - 1])) continue;
                    i64 at = filled < count ? filled++ : count - 1;
                    for (; at > 0 && y > v[at - 1]; at--) v[at] = v[at - 1], w[at] = w[at - 1];
                    v[at] = y, w[at] = i;
                }
            }
        }
    }
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
