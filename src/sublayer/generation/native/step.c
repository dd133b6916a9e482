/* One token a row through a plain decoder stack: all sublayers in one call.

   Its slow twin is the model itself. At one row a step reads every weight once and multiplies it once, so what counts is
   that the weights stream in without a pause: no framework between two matrices, one parallel region for the whole step.

   B rows, D width, H query heads on G key heads of size K, F inner width, C capacity of a cache, M keys attended.
   Caches are (B, G, C, K). form.py declares the same structs. */

#include <math.h>
#include <string.h>

#include "matrix.h"

#define TILE 12 /* out-features that one thread takes: whole tiles of either product */

enum { NO_NORM, LAYER_NORM, RMS_NORM };
enum { RELU, GELU, GELU_TANH, SWISH, SIGMOID, LINEAR };

typedef struct {
    int64_t kind;
    const float *gain, *shift;
    double eps;
} Norm;

typedef struct {
    int64_t attends, after; /* attention or feed-forward; norm after the sum or before the part */
    Norm norm;
    Matrix enter, leave;
    int64_t heads, groups, size, reach; /* reach: earlier places seen, -1 for all */
    /* What positions add, NULL where they do not: rotary cos, then sin, (place, K); ALiBi's slopes (H);
       Transformer-XL's u and v (H, K) and W_r R_d (H, distance, K), far distances first. */
    const float *turn, *slope, *content, *distance, *far;
    int64_t reaches; /* distances in `far` */
    float *key, *value;
    int64_t capacity, held;
    int64_t gated, activation;
} Sublayer;

typedef struct {
    int64_t rows, dim, sublayers, threads, place;
    const int64_t *first; /* (B) each row's first real place: padding stands before it */
    Sublayer *sublayer;
    Norm norm;
    Matrix head; /* weight NULL: give the hidden vectors */
    float *stream, *wide, *joined, *room, *out;
    int64_t private, columns; /* floats of `room` for each thread, and how many of them `multiply` needs */
} Step;

/* This thread's share of N. */
INLINE void share(int64_t N, int64_t *from, int64_t *to) {
    int64_t tiles = (N + TILE - 1) / TILE;
    *from = MIN(N, tiles * THREAD / THREADS * TILE);
    *to = MIN(N, tiles * (THREAD + 1) / THREADS * TILE);
}

static void normalise(const Norm *norm, const float *x, float *y, int64_t D) {
    if (norm->kind == NO_NORM) {
        memmove(y, x, D * sizeof(float));
        return;
    }
    float mean = norm->kind == LAYER_NORM ? sum(x, D) / D : 0;
    for (int64_t d = 0; d < D; d++) y[d] = x[d] - mean;
    float scale = 1.0f / sqrtf(dot(y, y, D) / D + (float)norm->eps);
    for (int64_t d = 0; d < D; d++) y[d] = y[d] * scale * norm->gain[d];
    if (norm->shift)
        for (int64_t d = 0; d < D; d++) y[d] += norm->shift[d];
}

/* x Φ(x) by erfc(a) = t P(t) e^(−a²), t = 1/(1 + 0.3275911 a), off by 1.5e-7 at most (Abramowitz & Stegun 7.1.26). */
INLINE float gelu(float x) {
    float a = fabsf(x) * 0.7071067812f, t = 1 / (1 + 0.3275911f * a), p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float tail = 0.5f * x * p * t * exponential(-a * a);
    return x > 0 ? x - tail : tail;
}

static void activate(int64_t kind, float *y, int64_t N) {
    const float root = 0.7978845608f; /* √(2/π) */
    if (kind == RELU)
        for (int64_t n = 0; n < N; n++) y[n] = MAX(y[n], 0);
    else if (kind == GELU)
        for (int64_t n = 0; n < N; n++) y[n] = gelu(y[n]);
    else if (kind == GELU_TANH) /* (1 + tanh t)/2 = 1/(1 + e^−2t) */
        for (int64_t n = 0; n < N; n++)
            y[n] = y[n] / (1 + exponential(-2 * root * (y[n] + 0.044715f * y[n] * y[n] * y[n])));
    else if (kind == SWISH)
        for (int64_t n = 0; n < N; n++) y[n] = y[n] / (1 + exponential(-y[n]));
    else if (kind == SIGMOID)
        for (int64_t n = 0; n < N; n++) y[n] = 1 / (1 + exponential(-y[n]));
}

static void rotate(float *x, const float *turn, int64_t K) {
    int64_t half = K / 2;
    for (int64_t e = 0; e < half; e++) {
        float a = x[e], b = x[e + half], cosine = turn[e], sine = turn[e + half];
        x[e] = a * cosine - b * sine;
        x[e + half] = b * cosine + a * sine;
    }
}

/* y[e] = scale Σ_j p[j] v[j, e] for R lanes of features, whose sums stay in registers. */
INLINE void blend(const int R, const float *p, const float *v, int64_t M, int64_t K, float scale, float *y) {
    v8 parts[4];
    for (int r = 0; r < R; r++) parts[r] = (v8){0};
    for (int64_t j = 0; j < M; j++)
        for (int r = 0; r < R; r++) parts[r] += p[j] * *(const v8 *)(v + j * K + LANES * r);
    for (int r = 0; r < R; r++)
        for (int e = 0; e < LANES; e++) y[LANES * r + e] = parts[r][e] * scale;
}

/* p[j] += q·k[j] on M keys. */
static void ask(const float *q, const float *k, int64_t M, int64_t K, float *p) {
    Matrix keys = {.out = M, .in = K, .weight = k};
    multiply_few(&keys, q, 1, 0, M, p, M);
}

/* y = softmax(p + q kᵀ) v on M keys, the last of them at the query's own place. */
static void attend(const float *q, const float *k, const float *v, int64_t M, int64_t K, float *p, float *y) {
    float most = -INFINITY;
    ask(q, k, M, K, p);
    for (int64_t j = 0; j < M; j++) most = MAX(most, p[j]);
    for (int64_t j = 0; j < M; j++) p[j] = exponential(p[j] - most);
    float part = 1.0f / sum(p, M);
    int64_t e = 0;
    for (; e + 4 * LANES <= K; e += 4 * LANES) blend(4, p, v + e, M, K, part, y + e);
    for (; e + LANES <= K; e += LANES) blend(1, p, v + e, M, K, part, y + e);
    for (; e < K; e++) {
        float rest = 0;
        for (int64_t j = 0; j < M; j++) rest += p[j] * v[j * K + e];
        y[e] = rest * part;
    }
}

/* The query of head h as its keys are asked, turned and over √K; into p what the position adds to its scores. */
static void prepare(const Sublayer *s, float *q, int64_t h, int64_t at, int64_t M, float *p, float *asked) {
    int64_t K = s->size;
    float scale = 1.0f / sqrtf((float)K), slope = s->slope ? s->slope[h] : 0;
    for (int64_t j = 0; j < M; j++) p[j] = -slope * (float)(M - 1 - j);
    if (s->turn) rotate(q, s->turn + at * K, K);
    if (s->far) {
        for (int64_t e = 0; e < K; e++) asked[e] = (q[e] + s->distance[h * K + e]) * scale;
        for (int64_t e = 0; e < K; e++) q[e] += s->content[h * K + e];
        ask(asked, s->far + ((h + 1) * s->reaches - M) * K, M, K, p);
    }
    for (int64_t e = 0; e < K; e++) q[e] *= scale;
}

/* Put one row's key and value of group g into the cache, then attend with the queries of that group. */
static void attend_group(const Step *step, const Sublayer *s, int64_t b, int64_t g, float *p) {
    int64_t H = s->heads, G = s->groups, K = s->size, C = s->capacity, at = s->held;
    int64_t pad = MAX(0, step->first[b] - (step->place - at)), where = step->place - step->first[b];
    int64_t from = s->reach < 0 ? pad : MAX(pad, at - s->reach);
    float *qkv = step->wide + b * (H + 2 * G) * K, *q = qkv + g * (H / G) * K;
    float *k = s->key + (b * G + g) * C * K, *v = s->value + (b * G + g) * C * K;
    memcpy(k + at * K, qkv + (H + g) * K, K * sizeof(float));
    memcpy(v + at * K, qkv + (H + G + g) * K, K * sizeof(float));
    if (s->turn) rotate(k + at * K, s->turn + where * K, K);
    for (int64_t h = g * (H / G); h < (g + 1) * (H / G); h++, q += K) {
        prepare(s, q, h, where, at + 1 - from, p, p + s->capacity);
        attend(q, k + from * K, v + from * K, at + 1 - from, K, p, step->joined + (b * H + h) * K);
    }
}

/* wide[b, from:to) = W x[b] + bias */
static void fill(const Step *step, const Matrix *m, const float *x, int64_t from, int64_t to, float *columns) {
    for (int64_t b = 0; b < step->rows; b++) memset(step->wide + b * m->out + from, 0, (to - from) * sizeof(float));
    multiply(m, x, step->rows, from, to, step->wide, m->out, columns);
}

static void feed(const Step *step, const Sublayer *s, const float *x, float *columns) {
    int64_t F = s->leave.in, from, to;
    share(F, &from, &to);
    fill(step, &s->enter, x, from, to, columns);
    if (s->gated) fill(step, &s->enter, x, F + from, F + to, columns);
    for (int64_t b = 0; b < step->rows; b++) {
        float *gate = step->wide + b * s->enter.out + from, *y = step->joined + b * F + from;
        activate(s->activation, gate, to - from);
        if (s->gated)
            for (int64_t f = 0; f < to - from; f++) y[f] = gate[f] * gate[F + f];
        else
            memcpy(y, gate, (to - from) * sizeof(float));
    }
}

static void attention(const Step *step, const Sublayer *s, const float *x, float *columns, float *p) {
    int64_t from, to, items = step->rows * s->groups;
    share(s->enter.out, &from, &to);
    fill(step, &s->enter, x, from, to, columns);
#pragma omp barrier
    for (int64_t i = items * THREAD / THREADS; i < items * (THREAD + 1) / THREADS; i++)
        attend_group(step, s, i / s->groups, i % s->groups, p);
}

/* All threads are here together; a barrier stands where one reads what others wrote. */
static void run(const Step *step) {
    int64_t B = step->rows, D = step->dim, from, to;
    float *mine = step->room + THREAD * step->private, *columns = mine + B * D, *p = columns + step->columns;
    for (int64_t l = 0; l < step->sublayers; l++) {
        const Sublayer *s = step->sublayer + l;
        const float *x = step->stream;
        if (!s->after) {
            for (int64_t b = 0; b < B; b++) normalise(&s->norm, step->stream + b * D, mine + b * D, D);
            x = mine;
        }
        if (s->attends)
            attention(step, s, x, columns, p);
        else
            feed(step, s, x, columns);
#pragma omp barrier
        share(D, &from, &to);
        multiply(&s->leave, step->joined, B, from, to, step->stream, D, columns);
#pragma omp barrier
        if (s->after) {
            for (int64_t b = B * THREAD / THREADS; b < B * (THREAD + 1) / THREADS; b++)
                normalise(&s->norm, step->stream + b * D, step->stream + b * D, D);
#pragma omp barrier
        }
    }
    for (int64_t b = 0; b < B; b++) normalise(&step->norm, step->stream + b * D, mine + b * D, D);
    int64_t N = step->head.weight ? step->head.out : D;
    share(N, &from, &to);
    for (int64_t b = 0; b < B; b++)
        if (step->head.weight)
            memset(step->out + b * N + from, 0, (to - from) * sizeof(float));
        else
            memcpy(step->out + b * N + from, mine + b * N + from, (to - from) * sizeof(float));
    if (step->head.weight) multiply(&step->head, mine, B, from, to, step->out, N, columns);
}

/* Reads the vectors in `stream`, writes scores or hidden vectors to `out`, and moves every cache on by one place. */
void sublayer_step(Step *step) {
#pragma omp parallel num_threads(step->threads)
    run(step);
    for (int64_t l = 0; l < step->sublayers; l++) step->sublayer[l].held++;
    step->place++;
}
