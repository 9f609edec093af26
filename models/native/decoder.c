/* A step of a Transformer's decoder layers in one call: self-attention over cells, attention over the source, feed-forward.
 *
 * Around each of the three stand a residual and a norm: pre x + f(LN(x)), post LN(x + f(x)). Shapes as in attention.c; N = B W T. */
#include "vectors.h"

typedef struct {
    linear_map joint, self_output, query, cross_output, inner, outer; /* joint: x -> [q; k; v] */
    const float *gain[3], *bias[3];                                   /* of the norms [D], as the sub-layers below */
    float eps;
    int pre;
    i64 H, K;
} decoder_layer;

enum { SELF, CROSS, FEED_FORWARD };

/* What a layer attends to: cells of its past, and the source as `lay_out_memory` makes it. */
typedef struct {
    float *keys, *values, *source_keys, *source_values, *source_bias;
    i64 *source_lengths;
} layer_memory;

/* y = gain (x - mean) / sqrt(variance + eps) + bias, row by row [N, D]; D is a multiple of LANES. */
static void layer_norm(const decoder_layer *layer, int which, const float *x, float *y, i64 N) {
    const i64 D = layer->H * layer->K;
    for (i64 n = 0; n < N; n++, x += D, y += D) {
        vec sum = {0}, squares = {0};
        for (i64 d = 0; d < D; d += LANES) sum += load(x + d);
        const vec mean = all(sum_of(sum) / D);
        for (i64 d = 0; d < D; d += LANES) squares += (load(x + d) - mean) * (load(x + d) - mean);
        const float rate = 1.0f / sqrtf(sum_of(squares) / D + layer->eps);
        for (i64 d = 0; d < D; d += LANES)
            store(y + d, (load(x + d) - mean) * rate * load(layer->gain[which] + d) + load(layer->bias[which] + d));
    }
}

/* What a sub-layer's function reads: x, or with pre its norm in `to`. */
static const float *before(const decoder_layer *layer, int which, const float *x, float *to, i64 N) {
    if (layer->pre) layer_norm(layer, which, x, to, N);
    return layer->pre ? to : x;
}

/* A sub-layer's end: y = x + y, or with post its norm. */
static void after(const decoder_layer *layer, int which, const float *x, float *y, i64 N) {
    for (i64 i = 0; i < N * layer->H * layer->K; i += LANES) store(y + i, load(x + i) + load(y + i));
    if (!layer->pre) layer_norm(layer, which, y, y, N);
}

/* y [N, D]: the input of the first of some layers, at the end the output of the last; attended [N, D]: its attention over the source.
 * buffer: N (widest + 2 D) numbers, widest the larger of 3 D and the hidden width, and room for each part. */
void decode_layers(const decoder_layer *layer, const layer_memory *memory, i64 layers, float *y, float *attended, float *buffer, const i64 *past,
                   i64 B, i64 W, i64 T, i64 C, i64 P, i64 start, i64 S, float scale, int threads) {
    const i64 N = B * W * T, H = layer->H, K = layer->K, D = H * K, hidden = layer->inner.outputs;
    float *wide = buffer, *read = wide + N * (3 * D > hidden ? 3 * D : hidden), *x = read + N * D, *scratch = x + N * D;
    for (const decoder_layer *end = layer + layers; layer < end; layer++, memory++) {
        linear(&layer->joint, before(layer, SELF, y, read, N), wide, scratch, N, threads);
        attend_cells(wide, wide + D, wide + 2 * D, 3 * D, 3 * D, 3 * D, memory->keys, memory->values, past, read, scratch, B, W, T, H, K, C, P,
                     start, scale, threads);
        linear(&layer->self_output, read, x, scratch, N, threads);
        after(layer, SELF, y, x, N);
        linear(&layer->query, before(layer, CROSS, x, read, N), wide, scratch, N, threads);
        attend_memory(wide, D, NULL, memory->source_keys, memory->source_values, memory->source_bias, memory->source_lengths, read, scratch, B,
                      W * T, H, K, S, scale, threads);
        linear(&layer->cross_output, read, attended, scratch, N, threads);
        after(layer, CROSS, x, attended, N);
        linear(&layer->inner, before(layer, FEED_FORWARD, attended, read, N), wide, scratch, N, threads);
        linear(&layer->outer, wide, y, scratch, N, threads);
        after(layer, FEED_FORWARD, attended, y, N);
    }
}
