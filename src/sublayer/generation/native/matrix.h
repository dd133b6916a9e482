/* A matrix times one vector, or several: where a step spends its time.

   N out and W in of a matrix, B vectors. Matrices are (N, W), rows contiguous, as torch.nn.Linear stores them. */

#include "vector.h"

#define MANY 8 /* vectors from which lanes of vectors are faster than lanes of features */

typedef struct {
    int64_t out, in;
    const float *weight, *bias; /* bias may be NULL */
} Matrix;

/* Lanes of features: R rows of the matrix times T vectors, which for few vectors is as fast as the matrix arrives.
   R and T are constants at each call, so that the sums stay in registers. */
INLINE void few(const int R, const int T, const float *w, const float *x, int64_t W, float *y, int64_t apart) {
    v8 parts[4][2];
    for (int r = 0; r < R; r++)
        for (int t = 0; t < T; t++) parts[r][t] = (v8){0};
    int64_t k = 0;
    for (; k + LANES <= W; k += LANES)
        for (int r = 0; r < R; r++) {
            v8 wide = *(const v8 *)(w + r * W + k);
            /* The rows after these: a whole tile ahead, past what the hardware fetches by itself. */
            __builtin_prefetch(w + (r + R) * W + k);
            for (int t = 0; t < T; t++) parts[r][t] += wide * *(const v8 *)(x + t * W + k);
        }
    for (int r = 0; r < R; r++)
        for (int t = 0; t < T; t++)
            y[t * apart + r] += total(parts[r][t]) + dot(w + r * W + k, x + t * W + k, W - k);
}

/* Lanes of vectors: R rows of the matrix times C·8 vectors, of which B are real; nothing is added across lanes.
   x is (W, P), the vectors as columns. */
INLINE void many(const int R, const int C, const float *w, const float *x, int64_t W, int64_t P, int64_t B, float *y,
                 int64_t apart) {
    v8 parts[6][2];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) parts[r][c] = (v8){0};
    for (int64_t k = 0; k < W; k++)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) parts[r][c] += w[r * W + k] * *(const v8 *)(x + k * P + LANES * c);
    for (int r = 0; r < R; r++)
        for (int b = 0; b < MIN(LANES * C, B); b++) y[b * apart + r] += parts[r][b / LANES][b % LANES];
}

static void multiply_few(const Matrix *m, const float *x, int64_t B, int64_t from, int64_t to, float *y, int64_t apart) {
    int64_t W = m->in, R = 4;
    for (int64_t n = from; n < to; n += R) {
        const float *w = m->weight + n * W;
        R = to - n < 4 ? 1 : 4;
        for (int64_t b = 0; b < B; b += 2) {
            const float *in = x + b * W;
            float *at = y + b * apart + n;
            if (R == 4 && B - b > 1)
                few(4, 2, w, in, W, at, apart);
            else if (R == 4)
                few(4, 1, w, in, W, at, apart);
            else
                for (int t = 0; t < MIN(2, B - b); t++) few(1, 1, w, in + t * W, W, at + t * apart, apart);
        }
    }
}

static void multiply_many(const Matrix *m, const float *x, int64_t B, int64_t from, int64_t to, float *y, int64_t apart,
                          float *columns) {
    int64_t W = m->in, P = (B + LANES - 1) / LANES * LANES, R = 6;
    for (int64_t k = 0; k < W; k++)
        for (int64_t b = 0; b < P; b++) columns[k * P + b] = b < B ? x[b * W + k] : 0;
    for (int64_t n = from; n < to; n += R) {
        const float *w = m->weight + n * W;
        R = to - n < 6 ? 1 : 6;
        for (int64_t b = 0; b < P; b += 2 * LANES) {
            float *at = y + b * apart + n;
            if (R == 6 && P - b > LANES)
                many(6, 2, w, columns + b, W, P, B - b, at, apart);
            else if (R == 6)
                many(6, 1, w, columns + b, W, P, B - b, at, apart);
            else if (P - b > LANES)
                many(1, 2, w, columns + b, W, P, B - b, at, apart);
            else
                many(1, 1, w, columns + b, W, P, B - b, at, apart);
        }
    }
}

/* y[b, n] += W x[b] + bias for n in [from, to), rows of y `apart` floats from each other.
   `columns` has room for the vectors once more, their number rounded up to whole lanes. */
static void multiply(const Matrix *m, const float *x, int64_t B, int64_t from, int64_t to, float *y, int64_t apart,
                     float *columns) {
    if (m->bias)
        for (int64_t b = 0; b < B; b++)
            for (int64_t n = from; n < to; n++) y[b * apart + n] += m->bias[n];
    if (B < MANY)
        multiply_few(m, x, B, from, to, y, apart);
    else
        multiply_many(m, x, B, from, to, y, apart, columns);
}
