/* softmax(q kᵀ · scale) v and its gradient, where every query sees all keys, or those up to its own position.

   Its slow twin is F.scaled_dot_product_attention. A row of scores is short enough to be held whole, so there is no
   running softmax: a few queries at a time, their scores on all keys that any of them sees, the softmax of each row, and
   the products with it, all within the processor's caches. Each thread has its own heads, so sums never depend on the
   number of threads.

   Backward does not read the weights but recomputes them: forward saves log Σ exp(scores) of each row, and
   exp(score − that) is the weight. One number a row instead of M, and one product more.

   B batch, H query heads on G key heads of size K, a multiple of WIDE, L queries, M keys, N keys rounded up to whole
   tiles either way. native.py declares the same structs. */

#include <string.h>

#include "vector.h"

#define TALL 6            /* rows of a tile */
#define WIDE (2 * LANES)  /* and columns: 6 × 2 vectors of sums, two of b and one of a fit in 16 registers */
#define ROWS 24           /* queries at a time: few, since a causal block's products above the diagonal are wasted */
#define UP(n, whole) (((n) + (whole) - 1) / (whole) * (whole))
#define BOTH 48           /* a multiple of TALL and WIDE, to which the number of keys is padded: tiles need no edge case */

typedef struct {
    float *at;
    int64_t b, h, l; /* strides in floats from one row, head, token to the next; a head's features are contiguous */
} Heads;

typedef struct {
    int64_t batch, heads, groups, length, keys, size, causal, threads;
    double scale;
    Heads q, k, v, y; /* y: the output, or its gradient */
    float *logs;      /* (B, H, L) log Σ exp(scores) of each row */
    Heads to_q, to_k, to_v;
    float *room;
    int64_t private; /* floats of `room` for each thread */
} Attention;

/* out (I, J) = a b, or += if `adds`; whole tiles, whose sums stay in registers for all T terms. a[i, t] is at
   i·row + t·step, so a may be read transposed; b is in panels of WIDE columns, `panel` apart, their rows `stride`. */
INLINE void product(int64_t I, int64_t J, int64_t T, const float *a, int64_t row, int64_t step, const float *b,
                    int64_t panel, int64_t stride, float *out, int64_t apart, int adds) {
    for (int64_t j = 0; j < J; j += WIDE, b += panel)
        for (int64_t i = 0; i < I; i += TALL) {
            v8 sums[TALL][2];
            const float *x = a + i * row;
            float *to = out + i * apart + j;
            for (int r = 0; r < TALL; r++)
                for (int c = 0; c < 2; c++) sums[r][c] = adds ? *(v8 *)(to + r * apart + c * LANES) : (v8){0};
            for (int64_t t = 0; t < T; t++) {
                v8 left = *(const v8 *)(b + t * stride), right = *(const v8 *)(b + t * stride + LANES);
                for (int r = 0; r < TALL; r++) {
                    sums[r][0] += x[r * row + t * step] * left;
                    sums[r][1] += x[r * row + t * step] * right;
                }
            }
            for (int r = 0; r < TALL; r++)
                for (int c = 0; c < 2; c++) *(v8 *)(to + r * apart + c * LANES) = sums[r][c];
        }
}

INLINE float *head(Heads x, int64_t b, int64_t h) {
    return x.at + b * x.b + h * x.h;
}

/* to (rows, K) = scale · from, which has R of these rows; zeros after them. */
static void gather(const float *from, int64_t apart, int64_t R, int64_t rows, int64_t K, float scale, float *to) {
    for (int64_t r = 0; r < R; r++)
        for (int64_t k = 0; k < K; k++) to[r * K + k] = scale * from[r * apart + k];
    memset(to + R * K, 0, (rows - R) * K * sizeof(float));
}

/* As gather, transposed: panels (K, WIDE) of WIDE rows each. */
static void transpose(const float *from, int64_t apart, int64_t R, int64_t rows, int64_t K, float *to) {
    for (int64_t r = 0; r < rows; r += WIDE, to += K * WIDE)
        for (int64_t k = 0; k < K; k++)
            for (int64_t w = 0; w < WIDE; w++) to[k * WIDE + w] = r + w < R ? from[(r + w) * apart + k] : 0;
}

static void scatter(const float *from, int64_t R, int64_t K, float *to, int64_t apart) {
    for (int64_t r = 0; r < R; r++) memcpy(to + r * apart, from + r * K, K * sizeof(float));
}

/* x[j] = e^(x[j] − top) of those seen, 0 of those after them up to `all`. */
static void exponentials(float *x, float top, int64_t seen, int64_t all) {
    for (int64_t j = 0; j < seen; j++) x[j] = exponential(x[j] - top);
    memset(x + seen, 0, (all - seen) * sizeof(float));
}

static float largest(const float *x, int64_t W) {
    float most[LANES];
    int64_t k = 0;
    for (int e = 0; e < LANES; e++) most[e] = x[0];
    for (; k + LANES <= W; k += LANES)
        for (int e = 0; e < LANES; e++) most[e] = MAX(most[e], x[k + e]);
    for (; k < W; k++) most[0] = MAX(most[0], x[k]);
    for (int e = 1; e < LANES; e++) most[0] = MAX(most[0], most[e]);
    return most[0];
}

static void forward(const Attention *p, int64_t b, int64_t g, float *room) {
    int64_t L = p->length, M = p->keys, K = p->size, N = UP(M, BOTH), each = p->heads / p->groups;
    float *k = room, *v = k + N * K, *q = v + N * K, *y = q + ROWS * K, *score = y + ROWS * K;
    transpose(head(p->k, b, g), p->k.l, M, N, K, k);
    gather(head(p->v, b, g), p->v.l, M, N, K, 1, v);
    for (int64_t h = g * each; h < g * each + each; h++)
        for (int64_t i = 0; i < L; i += ROWS) {
            int64_t R = MIN(ROWS, L - i), n = UP(p->causal ? i + R : M, WIDE);
            gather(head(p->q, b, h) + i * p->q.l, p->q.l, R, ROWS, K, p->scale, q);
            product(ROWS, n, K, q, K, 1, k, K * WIDE, WIDE, score, N, 0);
            float sums[ROWS];
            for (int64_t r = 0; r < R; r++) {
                float *x = score + r * N;
                int64_t seen = p->causal ? i + r + 1 : M;
                float top = largest(x, seen);
                exponentials(x, top, seen, n);
                sums[r] = sum(x, n);
                p->logs[(b * p->heads + h) * L + i + r] = top + logf(sums[r]);
            }
            /* Divided after the product: K divisions a row instead of n. */
            product(ROWS, K, n, score, N, 1, v, WIDE, K, y, K, 0);
            for (int64_t r = 0; r < R; r++)
                for (int64_t e = 0; e < K; e++) y[r * K + e] /= sums[r];
            scatter(y, R, K, head(p->y, b, h) + i * p->y.l, p->y.l);
        }
}

/* With P the weights and S the scores: dV = Pᵀ dY, dP = dY Vᵀ, dS = P (dP − Σ P dP), dQ = dS K, dK = dSᵀ Q. */
static void backward(const Attention *p, int64_t b, int64_t g, float *room) {
    int64_t L = p->length, M = p->keys, K = p->size, N = UP(M, BOTH), each = p->heads / p->groups;
    float *k = room, *v = k + N * K, *rows = v + N * K, *to_k = rows + N * K, *to_v = to_k + N * K;
    float *q = to_v + N * K, *y = q + ROWS * K, *to_q = y + ROWS * K, *weight = to_q + ROWS * K, *to_score = weight + ROWS * N;
    transpose(head(p->k, b, g), p->k.l, M, N, K, k);
    transpose(head(p->v, b, g), p->v.l, M, N, K, v);
    gather(head(p->k, b, g), p->k.l, M, N, K, p->scale, rows);
    memset(to_k, 0, 2 * N * K * sizeof(float));
    for (int64_t h = g * each; h < g * each + each; h++)
        for (int64_t i = 0; i < L; i += ROWS) {
            int64_t R = MIN(ROWS, L - i), n = UP(p->causal ? i + R : M, WIDE), tall = UP(n, TALL);
            gather(head(p->q, b, h) + i * p->q.l, p->q.l, R, ROWS, K, p->scale, q);
            gather(head(p->y, b, h) + i * p->y.l, p->y.l, R, ROWS, K, 1, y);
            product(ROWS, n, K, q, K, 1, k, K * WIDE, WIDE, weight, N, 0);
            product(ROWS, n, K, y, K, 1, v, K * WIDE, WIDE, to_score, N, 0);
            for (int64_t r = 0; r < ROWS; r++) {
                float *x = weight + r * N, *to = to_score + r * N;
                int64_t seen = r >= R ? 0 : p->causal ? i + r + 1 : M;
                exponentials(x, r < R ? p->logs[(b * p->heads + h) * L + i + r] : 0, seen, tall);
                float mean = dot(x, to, seen);
                for (int64_t j = 0; j < seen; j++) to[j] = x[j] * (to[j] - mean);
                memset(to + seen, 0, (tall - seen) * sizeof(float));
            }
            product(tall, K, ROWS, weight, 1, N, y, WIDE, K, to_v, K, 1);
            product(tall, K, ROWS, to_score, 1, N, q, WIDE, K, to_k, K, 1);
            product(ROWS, K, n, to_score, N, 1, rows, WIDE, K, to_q, K, 0);
            scatter(to_q, R, K, head(p->to_q, b, h) + i * p->to_q.l, p->to_q.l);
        }
    scatter(to_k, M, K, head(p->to_k, b, g), p->to_k.l);
    scatter(to_v, M, K, head(p->to_v, b, g), p->to_v.l);
}

INLINE void share(const Attention *p, void (*run)(const Attention *, int64_t, int64_t, float *)) {
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t n = 0; n < p->batch * p->groups; n++)
        run(p, n / p->groups, n % p->groups, p->room + THREAD * p->private);
}

void sublayer_attend(const Attention *p) {
    share(p, forward);
}

void sublayer_attend_backward(const Attention *p) {
    share(p, backward);
}
