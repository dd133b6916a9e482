/* A few rows times a matrix, which lies in panels: 16 columns side by side, as the product reads them.

   A panel is brought near once for all rows, and while they are multiplied the next one is on its way. Each number is
   summed in one order, whoever computes it and with whichever other rows. */

#include <string.h>

#include "vector.h"

#define WIDE 16  /* columns of a panel */
#define DEEP 256 /* of what is summed over, so much of a panel at a time: it stays beside the processor */
#define TALL 6   /* rows at a time, whose sums stay in registers */

typedef struct {
    int64_t in, out;
    const float *weight, *bias; /* bias may be NULL */
    int64_t down, right;        /* from one place in to the next, and from one out */
    float *panels;              /* (out / 16, in, 16), the last one filled up with zeros */
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

/* R rows, a constant at each call. `ahead`: what is read next, of which `lines` are fetched for every fourth place. */
INLINE void tile(const int R, const float *x, int64_t apart, const float *w, int64_t K, float *y, int64_t beside,
                 const float *ahead, int lines) {
    v8 parts[TALL][2];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < 2; c++) parts[r][c] = *(const v8 *)(y + r * beside + LANES * c);
    int64_t k = 0;
    for (; k + 4 <= K; k += 4) {
        for (int n = 0; n < lines; n++, ahead += WIDE) __builtin_prefetch(ahead, 0, 2);
        for (int j = 0; j < 4; j++) {
            v8 a = *(const v8 *)(w + (k + j) * WIDE), b = *(const v8 *)(w + (k + j) * WIDE + LANES);
            for (int r = 0; r < R; r++) {
                float one = x[r * apart + k + j];
                parts[r][0] += one * a;
                parts[r][1] += one * b;
            }
        }
    }
    for (; k < K; k++)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < 2; c++) parts[r][c] += x[r * apart + k] * *(const v8 *)(w + k * WIDE + LANES * c);
    for (int r = 0; r < R; r++)
        for (int c = 0; c < 2; c++) *(v8 *)(y + r * beside + LANES * c) = parts[r][c];
}

static void tiles(int64_t B, const float *x, int64_t apart, const float *w, int64_t K, float *y, int64_t beside,
                  const float *ahead) {
    int64_t blocks = (B + TALL - 1) / TALL;
    int lines = (int)MIN(4, (4 + blocks - 1) / blocks);
    for (int64_t n = 0; n < blocks; n++) {
        int64_t from = B * n / blocks, rows = B * (n + 1) / blocks - from;
        const float *in = x + from * apart, *soon = ahead + n * (K / 4) * lines * WIDE;
        float *out = y + from * beside;
        switch (rows) {
            case 1: tile(1, in, apart, w, K, out, beside, soon, lines); break;
            case 2: tile(2, in, apart, w, K, out, beside, soon, lines); break;
            case 3: tile(3, in, apart, w, K, out, beside, soon, lines); break;
            case 4: tile(4, in, apart, w, K, out, beside, soon, lines); break;
            case 5: tile(5, in, apart, w, K, out, beside, soon, lines); break;
            default: tile(6, in, apart, w, K, out, beside, soon, lines);
        }
        if (soon + (K / 4) * lines * WIDE >= ahead + K * WIDE) lines = 0;
    }
}

/* y[b, n] += Σ_k x[b, k] W[skip + k, n] for B rows, K places and n in [from, to), which starts with a panel. */
static void multiply_part(const Matrix *m, int64_t skip, int64_t K, const float *x, int64_t apart, int64_t B,
                          int64_t from, int64_t to, float *y, int64_t beside) {
    for (int64_t n = from; n < to; n += WIDE) {
        const float *panel = m->panels + n * m->in + skip * WIDE;
        int64_t wide = MIN(WIDE, to - n);
        for (int64_t k = 0; k < K; k += DEEP) {
            int64_t deep = MIN(DEEP, K - k);
            const float *w = panel + k * WIDE, *ahead = w + deep * WIDE;
            if (wide == WIDE) {
                tiles(B, x + k, apart, w, deep, y + n, beside, ahead);
                continue;
            }
            for (int64_t b = 0; b < B; b++) {
                float row[WIDE] = {0};
                memcpy(row, y + b * beside + n, wide * sizeof(float));
                tile(1, x + b * apart + k, apart, w, deep, row, WIDE, ahead, 0);
                memcpy(y + b * beside + n, row, wide * sizeof(float));
            }
        }
    }
}

static void multiply(const Matrix *m, const float *x, int64_t apart, int64_t B, int64_t from, int64_t to, float *y,
                     int64_t beside) {
    multiply_part(m, 0, m->in, x, apart, B, from, to, y, beside);
}

/* y[b, from:to) = b + x[b] W */
static void fill(const Matrix *m, const float *x, int64_t apart, int64_t B, int64_t from, int64_t to, float *y,
                 int64_t beside) {
    for (int64_t b = 0; b < B; b++)
        if (m->bias)
            memcpy(y + b * beside + from, m->bias + from, (to - from) * sizeof(float));
        else
            memset(y + b * beside + from, 0, (to - from) * sizeof(float));
    multiply(m, x, apart, B, from, to, y, beside);
}
