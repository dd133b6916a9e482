/* A few rows times a matrix packed in panels: 24 columns side by side, in the order the product reads them.

   A panel is loaded into the cache once for all rows, and while they are multiplied the next one is prefetched. Each
   number is summed in one order, whichever thread computes it and however many rows there are: the same bits. */

#include <string.h>

#include "vector.h"

#define ACROSS 3              /* vectors across a panel */
#define WIDE (ACROSS * LANES) /* its columns */
#define TALL 4                /* rows at a time: 4 × 3 vectors of sums, with what they need, fill 16 registers */
#define DEEP 256              /* terms of a sum at a time: that part of a panel stays in the first cache */
#define LINE 16               /* floats of a cache line */

/* Makes the compiler load a vector once instead of with each product. */
#ifdef __AVX__
#define HOLD(v) __asm__("" : "+x"(v))
#else
#define HOLD(v)
#endif

typedef struct {
    int64_t in, out;
    const float *weight, *bias; /* bias may be NULL */
    int64_t down, right;        /* strides: floats from one input to the next, and from one output */
    float *panels;              /* (out / 24, in, 24), the last one filled up with zeros */
} Matrix;

/* This thread's share of the panels. */
static void pack(const Matrix *m) {
    int64_t panels = (m->out + WIDE - 1) / WIDE;
    for (int64_t p = panels * THREAD / THREADS; p < panels * (THREAD + 1) / THREADS; p++) {
        const float *from = m->weight + p * WIDE * m->right;
        float *to = m->panels + p * WIDE * m->in;
        int64_t wide = MIN(WIDE, m->out - p * WIDE);
        for (int64_t k = 0; k < m->in; k++)
            for (int64_t n = 0; n < WIDE; n++) to[k * WIDE + n] = n < wide ? from[k * m->down + n * m->right] : 0;
    }
}

/* R rows, a constant at each call. `ahead`: what is read next; every four steps of k prefetch `lines` of it. */
INLINE void tile(const int R, const float *x, int64_t apart, const float *w, int64_t K, float *y, int64_t beside,
                 const float *ahead, int64_t lines) {
    v8 parts[TALL][ACROSS];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < ACROSS; c++) parts[r][c] = *(const v8 *)(y + r * beside + LANES * c);
    int64_t k = 0;
    for (; k + 4 <= K; k += 4) {
        for (int64_t n = 0; n < lines; n++, ahead += LINE) __builtin_prefetch(ahead, 0, 2);
        for (int j = 0; j < 4; j++) {
            v8 wide[ACROSS];
            for (int c = 0; c < ACROSS; c++) {
                wide[c] = *(const v8 *)(w + (k + j) * WIDE + LANES * c);
                HOLD(wide[c]);
            }
            for (int r = 0; r < R; r++)
                for (int c = 0; c < ACROSS; c++) parts[r][c] += x[r * apart + k + j] * wide[c];
        }
    }
    for (; k < K; k++)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < ACROSS; c++) parts[r][c] += x[r * apart + k] * *(const v8 *)(w + k * WIDE + LANES * c);
    for (int r = 0; r < R; r++)
        for (int c = 0; c < ACROSS; c++) *(v8 *)(y + r * beside + LANES * c) = parts[r][c];
}

/* B rows on a part of a panel, which the next part follows in memory. */
static void tiles(int64_t B, const float *x, int64_t apart, const float *w, int64_t K, float *y, int64_t beside) {
    int64_t blocks = MAX(1, (B + TALL - 1) / TALL), lines = (4 * WIDE / LINE + blocks - 1) / blocks;
    const float *ahead = w + K * WIDE, *all = ahead + K * WIDE;
    for (int64_t n = 0; n < blocks; n++) {
        int64_t from = B * n / blocks, rows = B * (n + 1) / blocks - from;
        const float *in = x + from * apart;
        float *out = y + from * beside;
        if (ahead >= all) lines = 0;
        switch (rows) {
            case 1: tile(1, in, apart, w, K, out, beside, ahead, lines); break;
            case 2: tile(2, in, apart, w, K, out, beside, ahead, lines); break;
            case 3: tile(3, in, apart, w, K, out, beside, ahead, lines); break;
            case 4: tile(4, in, apart, w, K, out, beside, ahead, lines);
        }
        ahead += K / 4 * lines * LINE;
    }
}

/* The last columns of a matrix, fewer than a panel has. */
static void narrow(int64_t B, const float *x, int64_t apart, const float *w, int64_t K, float *y, int64_t beside,
                   int64_t wide) {
    float whole[TALL * WIDE] = {0};
    for (int64_t b = 0; b < B; b += TALL) {
        int64_t rows = MIN(TALL, B - b);
        for (int64_t r = 0; r < rows; r++) memcpy(whole + r * WIDE, y + (b + r) * beside, wide * sizeof(float));
        tiles(rows, x + b * apart, apart, w, K, whole, WIDE);
        for (int64_t r = 0; r < rows; r++) memcpy(y + (b + r) * beside, whole + r * WIDE, wide * sizeof(float));
    }
}

/* y[b, n] += Σ_k x[b, k] W[skip + k, n] for B rows, K inputs and n in [from, to), which starts with a panel. Rows of x
   are `apart`, their parts `beyond` from each other. */
static void multiply_part(const Matrix *m, int64_t skip, int64_t K, const float *x, int64_t apart, int64_t beyond,
                          int64_t B, int64_t from, int64_t to, float *y, int64_t beside) {
    for (int64_t n = from; n < to; n += WIDE)
        for (int64_t k = 0; k < K; k += DEEP) {
            const float *w = m->panels + n * m->in + (skip + k) * WIDE, *in = x + k / DEEP * beyond;
            if (to - n >= WIDE)
                tiles(B, in, apart, w, MIN(DEEP, K - k), y + n, beside);
            else
                narrow(B, in, apart, w, MIN(DEEP, K - k), y + n, beside, to - n);
        }
}

/* y[b, from:to) += x[b] W. Long rows are first copied to `room`, part by part: rows whole pages apart would
   fall into the same sets of the cache and evict each other. */
static void multiply(const Matrix *m, const float *x, int64_t apart, int64_t B, int64_t from, int64_t to, float *y,
                     int64_t beside, float *room) {
    int64_t K = m->in;
    if (K <= DEEP) {
        multiply_part(m, 0, K, x, apart, DEEP, B, from, to, y, beside);
        return;
    }
    for (int64_t k = 0; k < K; k += DEEP)
        for (int64_t b = 0; b < B; b++)
            memcpy(room + k * B + b * DEEP, x + b * apart + k, MIN(DEEP, K - k) * sizeof(float));
    multiply_part(m, 0, K, room, DEEP, B * DEEP, B, from, to, y, beside);
}

/* y[b, from:to) = b + x[b] W */
static void fill(const Matrix *m, const float *x, int64_t apart, int64_t B, int64_t from, int64_t to, float *y,
                 int64_t beside, float *room) {
    for (int64_t b = 0; b < B; b++)
        if (m->bias)
            memcpy(y + b * beside + from, m->bias + from, (to - from) * sizeof(float));
        else
            memset(y + b * beside + from, 0, (to - from) * sizeof(float));
    multiply(m, x, apart, B, from, to, y, beside, room);
}
