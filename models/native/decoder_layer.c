/* A step of a Transformer's decoder layer: self-attention over cells, attention over the source, feed-forward, in one call.
 *
 * Around each of the three stand a residual and a norm: pre x + f(LN(x)), post LN(x + f(x)). It calls the functions that models/native calls
 * step by step, in the same order: the same bits.
 */
#include "steps.h"

typedef struct {
    const float *weight, *bias;
    float eps;
} norm;

typedef struct {
    linear_map joint, self_output, query, cross_output, inner, outer; /* joint: x -> [q; k; v] */
    norm self_norm, cross_norm, last_norm;
    i64 H, K, pre;
} decoder_layer;

/* B sentences, W rows of each, T new positions. Cells and past as in `attend_cells`, the source as in `attend_memory`. */
typedef struct {
    i64 B, W, T, C, P, start, S;
    const i64 *past;
} decoder_step;

/* What one layer attends to in a step. */
typedef struct {
    float *keys, *values;
    const float *source_keys, *source_values, *source_bias;
    const i64 *source_lengths;
} layer_memory;

/* Room for a step of N positions: rows of the widest of all, of two more states, and for what the parts need. */
typedef struct {
    float *wide, *input, *output, *scratch;
} room;

/* Of some work, as many threads as have enough to do, at most so many. */
static int threads_for(i64 operations, int most) {
    const i64 least = 1 << 19, fit = operations / least;
    return fit < 1 ? 1 : fit < most ? (int)fit : most;
}

static void project(const linear_map *map, const float *x, float *y, float *scratch, i64 N, int threads) {
    apply(map, x, y, scratch, N, threads_for(N * map->inputs * map->outputs, threads));
}

/* What the function inside a sub-layer reads: x, or with pre its norm, put into `to`. */
static const float *before(const decoder_layer *layer, const norm *n, const float *x, float *to, i64 N, i64 D, int threads) {
    if (!layer->pre) return x;
    layer_norm(x, n->weight, n->bias, to, N, D, n->eps, threads_for(8 * N * D, threads));
    return to;
}

/* The sub-layer's end: y = x + f, or with post its norm; `f` may be changed. */
static void after(const decoder_layer *layer, const norm *n, const float *x, float *f, float *y, i64 N, i64 D, int threads) {
    const int enough = threads_for(8 * N * D, threads);
    add_rows(x, f, layer->pre ? y : f, N * D, enough);
    if (!layer->pre) layer_norm(f, n->weight, n->bias, y, N, D, n->eps, enough);
}

static void self_attention(const decoder_layer *layer, const decoder_step *step, const layer_memory *memory, const float *x, float *y, room r,
                           float scale, int threads) {
    const i64 N = step->B * step->W * step->T, D = layer->H * layer->K;
    project(&layer->joint, before(layer, &layer->self_norm, x, r.input, N, D, threads), r.wide, r.scratch, N, threads);
    attend_cells(r.wide, r.wide + D, r.wide + 2 * D, 3 * D, 3 * D, 3 * D, memory->keys, memory->values, step->past, r.input, r.scratch, step->B,
                 step->W, step->T, layer->H, layer->K, step->C, step->P, step->start, scale, threads_for(2 * N * D * step->P, threads));
    project(&layer->self_output, r.input, r.output, r.scratch, N, threads);
    after(layer, &layer->self_norm, x, r.output, y, N, D, threads);
}

static void cross_attention(const decoder_layer *layer, const decoder_step *step, const layer_memory *memory, const float *x, float *y, room r,
                            float scale, int threads) {
    const i64 N = step->B * step->W * step->T, D = layer->H * layer->K;
    project(&layer->query, before(layer, &layer->cross_norm, x, r.input, N, D, threads), r.wide, r.scratch, N, threads);
    attend_memory(r.wide, memory->source_keys, memory->source_values, memory->source_bias, memory->source_lengths, r.input, r.scratch, step->B,
                  step->W * step->T, layer->H, layer->K, step->S, scale, threads_for(2 * N * D * step->S, threads));
    project(&layer->cross_output, r.input, r.output, r.scratch, N, threads);
    after(layer, &layer->cross_norm, x, r.output, y, N, D, threads);
}

static void feed_forward(const decoder_layer *layer, const float *x, float *y, room r, i64 N, int threads) {
    const i64 D = layer->H * layer->K;
    project(&layer->inner, before(layer, &layer->last_norm, x, r.input, N, D, threads), r.wide, r.scratch, N, threads);
    project(&layer->outer, r.wide, r.output, r.scratch, N, threads);
    after(layer, &layer->last_norm, x, r.output, y, N, D, threads);
}

/* x [N, D] -> attended [N, D], the output of attention over the source, and y [N, D], the layer's output; N = B W T.
 *
 * buffer: N * (widest + 2 D) numbers, then scratch for the parts: of linear maps N * (widest + LANES), of attention for each thread
 * P + LANES or S. widest: the larger of 3 D and the hidden width. */
void decode_layer(const decoder_layer *layer, const layer_memory *memory, const decoder_step *step, const float *x, float *attended, float *y,
                  float *buffer, float scale, int threads) {
    const i64 N = step->B * step->W * step->T, D = layer->H * layer->K, widest = 3 * D > layer->inner.outputs ? 3 * D : layer->inner.outputs;
    const room r = {buffer, buffer + N * widest, buffer + N * (widest + D), buffer + N * (widest + 2 * D)};
    self_attention(layer, step, memory, x, y, r, scale, threads);
    cross_attention(layer, step, memory, y, attended, r, scale, threads);
    feed_forward(layer, attended, y, r, N, threads);
}
