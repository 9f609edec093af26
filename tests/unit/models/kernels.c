/* Calls every function of models/native with numbers from a fixed sequence and prints what they answer: "name number number ..".
 * test_kernels.py runs it as built for several processors. */
#include <stdio.h>
#include <stdlib.h>

#include "vectors.h"

#define HIDDEN -1e9f

void pack(const float *w, float *packed, i64 M, i64 D);
void pack8(const int8_t *w, int16_t *packed, int32_t *offset, i64 M, i64 D);
void lay_out_memory(const float *k, const float *v, i64 k_stride, i64 v_stride, const i64 *starts, const float *bias, float *keys,
                    float *values, float *hide, i64 *lengths, i64 B, i64 H, i64 K, i64 S, i64 given, int threads);
void best_words(float *logits, const i64 *banned, const i64 *repeated, float *value, i64 *word, float *special, float *scratch, i64 N, i64 V,
                i64 n_banned, i64 R, i64 count, i64 eos, int threads);

static uint32_t state = 1;

static float *numbers(i64 n) {
    float *x = calloc(n + 64, sizeof(float));
    for (i64 i = 0; i < n; i++) state = state * 1664525u + 1013904223u, x[i] = (int32_t)state / 2147483648.0f;
    return x;
}

static void show(const char *name, const float *x, i64 n) {
    printf("%s", name);
    for (i64 i = 0; i < n; i++) printf(" %.9g", x[i]);
    printf("\n");
}

static void maps(i64 N, i64 D, i64 M, int relu) {
    const i64 most = M + 64;
    float *x = numbers(N * D), *w = numbers(M * D), *packed = numbers(most * D), *y = numbers(N * M), *scratch = numbers(N * (D + 64));
    linear_map map = {packed, numbers(most), NULL, NULL, D, M, relu};
    pack(w, packed, M, D);
    linear(&map, x, y, scratch, N, 1);
    show("linear", y, N * M);
    int8_t *bytes = malloc(M * D);
    for (i64 i = 0; i < M * D; i++) bytes[i] = i % 7 ? (int8_t)(w[i] * 127) : 127;
    for (i64 i = 0; i < D; i++) x[i] = 1;
    map.weights = malloc(most * D * sizeof(int16_t)), map.scale = numbers(most), map.offset = malloc(most * sizeof(int32_t));
    pack8(bytes, (int16_t *)map.weights, (int32_t *)map.offset, M, D);
    linear(&map, x, y, scratch, N, 1);
    show("linear8", y, N * M);
}

static void attention(i64 K) {
    const i64 B = 2, W = 3, H = 2, D = H * K, C = 12, P = 5, S = 16, starts[] = {0, 9, 16}, given = 9;
    i64 past[6 * 5], lengths[2];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++) past[i * 5 + j] = j < 4 ? (i * 7 + j * 3) % 6 : 6 + i % 3;
    float *qkv = numbers(6 * 3 * D), *cells = numbers(2 * B * C * D), *z = numbers(16 * D), *scratch = numbers((2 * K + 2) * S + 64);
    attend_cells(qkv, qkv + D, qkv + 2 * D, 3 * D, 3 * D, 3 * D, cells, cells + B * C * D, past, z, scratch, B, W, 1, H, K, C, P, 6, 0.2f, 1);
    show("attend_cells", z, 6 * D);
    float *bias = numbers(B * given);
    for (int i = 0; i < B * given; i++) bias[i] = i % 4 == 3 ? HIDDEN : 0;
    float *keys = numbers(B * S * D), *values = numbers(B * S * D), *hide = numbers(B * S), *k = numbers(16 * D), *v = numbers(16 * D);
    lay_out_memory(k, v, D, D, starts, bias, keys, values, hide, lengths, B, H, K, S, given, 1);
    attend_memory(qkv, D, NULL, keys, values, hide, lengths, z, scratch, B, W, H, K, S, 0.2f, 1);
    show("attend_memory", z, 6 * D);
}

int main(void) {
    for (i64 N = 1; N < 32; N += 5)
        for (int relu = 0; relu < 2; relu++) maps(N, 16, 33, relu), maps(N, 300, 40, relu), maps(N, 1024, 64, relu);
    for (i64 K = 16; K <= 128; K *= 2) attention(K);
    const i64 banned[] = {0, 2}, repeated[] = {5, 6, 7};
    float *logits = numbers(3 * 500), value[3 * 6], special[3];
    i64 word[3 * 6];
    best_words(logits, banned, repeated, value, word, special, numbers(16), 3, 500, 2, 1, 6, 3, 1);
    show("value", value, 18), show("special", special, 3);
    for (int i = 0; i < 18; i++) value[i] = word[i];
    show("word", value, 18);
}
