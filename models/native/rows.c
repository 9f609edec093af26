/* The choice of words, row by row [N, V]. */
#include "vectors.h"

#define BLOCK 64 /* words of which only the largest is looked at first */

INLINE float largest(const float *x, i64 n) {
    vec a = all(-INFINITY), b = a;
    i64 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) a = larger(load(x + i), a), b = larger(load(x + i + LANES), b);
    float m = largest_of(larger(a, b));
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
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
#pragma omp parallel num_threads(threads_for(16 * N * V, threads))
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
