/* Products of small matrices whose sums stay in registers, and the forms in which they read them. */

#include <string.h>

#include "vector.h"

#define WIDE 16           /* columns of a panel */
#ifdef __AVX512F__
#define TALL 8            /* rows of a tile, which has two panels: 8 × 2 vectors of sums hide each other's latency */
#define VECTOR 16         /* floats of a vector */
#else
#define TALL 6            /* and one panel: 6 × 2 vectors of sums, two of b and one of a fit in 16 registers */
#define VECTOR 8
#endif
#define UP(n, whole) (((n) + (whole) - 1) / (whole) * (whole))

typedef float vec __attribute__((vector_size(4 * VECTOR), aligned(4)));

typedef struct {
    float *at;
    int64_t b, h, l; /* strides in floats from one row, head, token to the next; a head's features are contiguous */
} Heads;

/* Two vectors of columns, or one, of `product`. */
INLINE void columns(int vectors, int64_t I, int64_t T, const float *a, int64_t row, int64_t step, const float *b,
                    int64_t panel, int64_t stride, float *out, int64_t apart, int adds) {
    const float *right = VECTOR < WIDE ? b + VECTOR : b + panel;
    for (int64_t i = 0; i < I; i += TALL) {
        vec sums[TALL][2];
        const float *x = a + i * row;
        float *to = out + i * apart;
        for (int r = 0; r < TALL; r++)
            for (int c = 0; c < vectors; c++) sums[r][c] = adds ? *(vec *)(to + r * apart + c * VECTOR) : (vec){0};
        for (int64_t t = 0; t < T; t++) {
            vec one = *(const vec *)(b + t * stride), two = vectors > 1 ? *(const vec *)(right + t * stride) : one;
            for (int r = 0; r < TALL; r++) {
                sums[r][0] += x[r * row + t * step] * one;
                if (vectors > 1) sums[r][1] += x[r * row + t * step] * two;
            }
        }
        for (int r = 0; r < TALL; r++)
            for (int c = 0; c < vectors; c++) *(vec *)(to + r * apart + c * VECTOR) = sums[r][c];
    }
}

/* out (I, J) = a b, or += if `adds`; whole tiles, whose sums stay in registers for all T terms. a[i, t] is at
   i·row + t·step, so a may be read transposed; b is in panels of WIDE columns, `panel` apart, their rows `stride`. */
INLINE void product(int64_t I, int64_t J, int64_t T, const float *a, int64_t row, int64_t step, const float *b,
                    int64_t panel, int64_t stride, float *out, int64_t apart, int adds) {
    int64_t j = 0;
    for (; j + 2 * VECTOR <= J; j += 2 * VECTOR)
        columns(2, I, T, a, row, step, b + j / WIDE * panel, panel, stride, out + j, apart, adds);
    if (j < J) columns(1, I, T, a, row, step, b + j / WIDE * panel, panel, stride, out + j, apart, adds);
}

INLINE float *head(Heads x, int64_t b, int64_t h) {
    return x.at + b * x.b + h * x.h;
}

INLINE int64_t at(const int32_t *order, int64_t n) {
    return order ? order[n] : n;
}

/* to (rows, K) = scale · from, R of its rows in the given order; zeros after them. */
static void gather(const float *from, int64_t apart, const int32_t *order, int64_t R, int64_t rows, int64_t K, float scale,
                   float *to) {
    for (int64_t r = 0; r < R; r++) {
        const float *x = from + at(order, r) * apart;
        for (int64_t k = 0; k < K; k++) to[r * K + k] = scale * x[k];
    }
    memset(to + R * K, 0, (rows - R) * K * sizeof(float));
}

/* As gather, transposed: panels (K, WIDE) of WIDE rows each. */
static void transpose(const float *from, int64_t apart, const int32_t *order, int64_t R, int64_t rows, int64_t K, float *to) {
    for (int64_t r = 0; r < rows; r += WIDE, to += K * WIDE)
        for (int64_t w = 0; w < WIDE; w++) {
            const float *x = r + w < R ? from + at(order, r + w) * apart : 0;
            for (int64_t k = 0; k < K; k++) to[k * WIDE + w] = x ? x[k] : 0;
        }
}
