/* One token a row through a decoder's stack, plain or Feedback: all sublayers in one call.

   Its slow twin is the model itself. At one row a step reads every weight once and multiplies it once, so what counts is
   that the weights are read from memory without a pause: no framework between two matrices, one parallel region for the whole step.

   B rows, D width, H query heads on G key heads of size K, F inner width, C capacity of a cache, M keys attended.
   form.py declares the same structs. */

#include <math.h>
#include <string.h>

#include "matrix.h"

#include "attend.h"
#include "pointwise.h"

#define TILE 12 /* out-features that one thread takes: whole tiles of either product */

typedef struct {
    int64_t groups, size, capacity, held;
    float *key, *value; /* (B, G, C, K) */
    const float *rotation; /* rotary cos, then sin, (position, K); or NULL */
    /* The owner of the keys and values. An attention: it appends them before it attends, and `made.weight` is NULL.
       A Feedback memory: the end of the step projects them from memory vectors, and no token sees itself. */
    int64_t stream;
    Norm norm;
    Matrix made;
} Cache;

typedef struct {
    int64_t attends, after; /* attention or feed-forward; norm after the sum or before the part */
    int64_t ends;           /* the layer that ends here, counted from 1; 0 for none, or without a memory */
    Norm norm;
    Matrix enter, leave;
    int64_t heads, cache, reach; /* reach: earlier tokens seen, -1 for all */
    /* Where not each of these is seen: ranges of keys in lists, list n from begins[n] to begins[n + 1]; and which list each
       head of each row follows (B, H). NULL elsewhere. */
    const Range *ranges;
    const int64_t *begins, *lists;
    /* What positions add to scores, NULL where they do not: ALiBi's slopes (H); vectors of distances (distance, K), far
       ones first, beyond which all share the last, for each head, or `apart` 0; with them Transformer-XL's u and v (H, K). */
    const float *slope, *content, *distance, *far;
    int64_t reaches, apart; /* distances in `far`, and from one head's to the next */
    int64_t gated, activation;
} Sublayer;

typedef struct {
    int64_t rows, dim, sublayers, caches, threads;
    int64_t start;        /* tokens read before this one, padding included */
    const int64_t *first; /* (B) each row's first real token, after its padding */
    Sublayer *sublayer;
    Cache *cache;
    /* A Feedback memory: how much of x^0 and of each layer is in each stream (R, layers + 1); its vectors (R, B, D). */
    int64_t streams, layers;
    const float *compose;
    float *memory;
    Norm norm;
    Matrix head; /* weight NULL: give the hidden vectors */
    float *stream, *wide, *joined, *room, *out;
    int64_t private, columns; /* floats of `room` for each thread, and how many of them `multiply` needs */
} Step;

INLINE int recalls(const Cache *c) { return c->made.weight != NULL; }

/* This thread's share of N. */
INLINE void share(int64_t N, int64_t *from, int64_t *to) {
    int64_t tiles = (N + TILE - 1) / TILE;
    *from = MIN(N, tiles * THREAD / THREADS * TILE);
    *to = MIN(N, tiles * (THREAD + 1) / THREADS * TILE);
}

/* p[j] += q·r[distance of key j] on the keys of a range. */
static void score_distances(const Sublayer *s, const float *q, int64_t h, const Range *r, int64_t K, float *p) {
    const float *far = s->far + h * s->apart * K;
    int64_t nearest = s->reaches - 1 - r->apart; /* the row of the first key, if it is not beyond the last distance */
    int64_t beyond = nearest < 0 ? MIN(r->count, (r->hop - 1 - nearest) / r->hop) : 0;
    float edge = 0;
    if (beyond) ask(q, far, 1, 1, K, &edge);
    for (int64_t j = 0; j < beyond; j++) p[j] += edge;
    ask(q, far + (nearest + beyond * r->hop) * K, r->count - beyond, r->hop, K, p + beyond);
}

/* Prepares the query of head h: rotated and over √K. Writes the position's terms of the scores to p. */
static void prepare(const Sublayer *s, const Cache *c, float *q, int64_t h, int64_t at, const Range *r, int64_t ranges,
                    float *p) {
    int64_t K = c->size;
    float scale = 1.0f / sqrtf((float)K), slope = s->slope ? s->slope[h] : 0, *asked = p + c->capacity;
    if (c->rotation) rotate(q, c->rotation + at * K, K);
    for (int64_t e = 0; s->far && e < K; e++) asked[e] = (q[e] + (s->distance ? s->distance[h * K + e] : 0)) * scale;
    for (const Range *end = r + ranges; r < end; p += r++->count) {
        for (int64_t j = 0; j < r->count; j++) p[j] = -slope * (float)(r->apart - j * r->hop);
        if (s->far) score_distances(s, asked, h, r, K, p);
    }
    if (s->content)
        for (int64_t e = 0; e < K; e++) q[e] += s->content[h * K + e];
    for (int64_t e = 0; e < K; e++) q[e] *= scale;
}

/* Appends one row's key and value of group g to the cache. */
static void append(const Step *step, const Cache *c, int64_t b, int64_t g, const float *k, const float *v) {
    int64_t K = c->size, at = ((b * c->groups + g) * c->capacity + c->held) * K;
    memcpy(c->key + at, k, K * sizeof(float));
    memcpy(c->value + at, v, K * sizeof(float));
    if (c->rotation) rotate(c->key + at, c->rotation + (step->start - step->first[b]) * K, K);
}

/* Attend with one row's queries of group g; first append its key and value, where they are its own. */
static void attend_group(const Step *step, const Sublayer *s, int64_t b, int64_t g, float *p) {
    const Cache *c = step->cache + s->cache;
    int64_t H = s->heads, G = c->groups, K = c->size, at = c->held, end = recalls(c) ? at : at + 1;
    int64_t pad = MAX(0, step->first[b] - (step->start - at)), where = step->start - step->first[b];
    int64_t from = s->reach < 0 ? pad : MAX(pad, at - s->reach), cached = (b * G + g) * c->capacity * K;
    Range last = {from, MAX(0, end - from), 1, at - from, 1};
    float *row = step->wide + b * s->enter.out, *q = row + g * (H / G) * K;
    if (!recalls(c)) append(step, c, b, g, row + (H + g) * K, row + (H + G + g) * K);
    for (int64_t h = g * (H / G); h < (g + 1) * (H / G); h++, q += K) {
        const Range *r = &last;
        int64_t ranges = 1;
        if (s->lists) {
            const int64_t *list = s->begins + s->lists[b * H + h];
            r = s->ranges + list[0], ranges = list[1] - list[0];
        }
        prepare(s, c, q, h, where, r, ranges, p);
        attend(q, c->key + cached, c->value + cached, r, ranges, K, p, step->joined + (b * H + h) * K);
    }
}

/* y[b, from:to) = W x[b] + bias */
static void fill(const Matrix *m, const float *x, int64_t B, int64_t from, int64_t to, float *y, float *columns) {
    for (int64_t b = 0; b < B; b++) memset(y + b * m->out + from, 0, (to - from) * sizeof(float));
    multiply(m, x, B, from, to, y, m->out, columns);
}

static void feed(const Step *step, const Sublayer *s, const float *x, float *columns) {
    int64_t F = s->leave.in, from, to;
    share(F, &from, &to);
    fill(&s->enter, x, step->rows, from, to, step->wide, columns);
    if (s->gated) fill(&s->enter, x, step->rows, F + from, F + to, step->wide, columns);
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
    int64_t from, to, G = step->cache[s->cache].groups, items = step->rows * G;
    share(s->enter.out, &from, &to);
    fill(&s->enter, x, step->rows, from, to, step->wide, columns);
#pragma omp barrier
    for (int64_t i = items * THREAD / THREADS; i < items * (THREAD + 1) / THREADS; i++)
        attend_group(step, s, i / G, i % G, p);
}

/* Adds a layer's share to each stream of memory vectors; x^0 comes first. A thread has the same features every time,
   so no barrier is needed. */
static void compose(const Step *step, int64_t layer) {
    int64_t B = step->rows, D = step->dim, from, to;
    share(D, &from, &to);
    for (int64_t r = 0; r < step->streams; r++) {
        float weight = step->compose[r * (step->layers + 1) + layer];
        if (layer && !weight) continue;
        for (int64_t b = 0; b < B; b++) {
            float *m = step->memory + (r * B + b) * D, *x = step->stream + b * D;
            for (int64_t d = from; d < to; d++) m[d] = (layer ? m[d] : 0) + weight * x[d];
        }
    }
}

/* Memory vectors as keys and values, for the tokens to come. */
static void remember(const Step *step, float *mine, float *columns) {
    int64_t B = step->rows, D = step->dim, from, to;
    float *kv = step->wide;
#pragma omp barrier
    for (const Cache *c = step->cache; c < step->cache + step->caches; c++) {
        const float *m = step->memory + c->stream * B * D;
        for (int64_t b = 0; b < B; b++) normalise(&c->norm, m + b * D, mine + b * D, D);
        share(c->made.out, &from, &to);
        fill(&c->made, mine, B, from, to, kv, columns);
        kv += B * c->made.out;
    }
    kv = step->wide;
#pragma omp barrier
    for (const Cache *c = step->cache; c < step->cache + step->caches; c++) {
        int64_t G = c->groups, K = c->size, items = B * G;
        for (int64_t i = items * THREAD / THREADS; i < items * (THREAD + 1) / THREADS; i++) {
            float *k = kv + (i / G * 2 * G + i % G) * K;
            append(step, c, i / G, i % G, k, k + G * K);
        }
        kv += B * c->made.out;
    }
}

/* Run by all threads; there is a barrier wherever one reads what others wrote. */
static void run(const Step *step) {
    int64_t B = step->rows, D = step->dim, from, to;
    float *mine = step->room + THREAD * step->private, *columns = mine + B * D, *p = columns + step->columns;
    compose(step, 0);
    for (int64_t n = 0; n < step->sublayers; n++) {
        const Sublayer *s = step->sublayer + n;
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
        if (s->ends) compose(step, s->ends);
    }
    if (step->streams) remember(step, mine, columns);
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

/* Reads the vectors in `stream`, writes scores or hidden vectors to `out`, and appends one token to every cache. */
void sublayer_step(Step *step) {
#pragma omp parallel num_threads(step->threads)
    run(step);
    for (int64_t n = 0; n < step->caches; n++) step->cache[n].held++;
    step->start++;
}
