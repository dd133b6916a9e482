/* A Feedback stack over all tokens of a segment, forwards and backwards; its slow twins are Loop and BackwardLoop in
   unrolled/.

   A token has few rows and needs the one before it, so what counts is overhead between two small products: matrices are
   packed once for all tokens, and one parallel region covers all tokens, or a block of them in backward. */

#include <math.h>
#include <string.h>

#include "loop.h"

#include "back.h"

/* Writes the scores' terms by distance, q·table, to the weights of token t; `attend` adds q·k. */
static void score_distances(const Loop *l, const Sublayer *s, const Team *team, int64_t t, int64_t start, int64_t M) {
    int64_t K = l->size, J = l->heads / l->groups, C = l->capacity, rows = (team->end - team->begin) * J;
    int64_t R = l->near.out, P = (R + WIDE - 1) / WIDE * WIDE, from = (R - M) / WIDE * WIDE;
    float *p = team->mine, *w = at(l, s->weights, t, l->heads * C) + team->begin * J * C + start;
    const float *q = at(l, s->q, t, l->heads * K) + team->begin * J * K;
    for (int64_t r = 0; r < rows; r++) memset(p + r * P + from, 0, (R - from) * sizeof(float));
    multiply_part(&l->near, 0, K, q, K, DEEP, rows, from, R, p, P);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < M; j++) w[r * C + j] = p[r * P + R - M + j];
}

static void attend(const Loop *l, const Sublayer *s, const Team *team, int64_t t) {
    int64_t K = l->size, H = l->heads, J = H / l->groups, C = keys(l, s), M, start = seen(l, s, t, &M);
    float *q = at(l, s->q, t, H * K), *y = at(l, s->y, t, H * K), *w = at(l, s->weights, t, H * C) + start;
    const float *k = s->source ? s->source_k : l->k, *v = s->source ? s->source_v : l->v;
    float *scores = team->mine;
    int apart = l->near.weight && !s->source;
    for (int64_t i = team->begin * J; i < team->end * J && M && !s->source; i++) rotate_at(l, t, i / H, q + i * K, 0);
    if (apart && M) score_distances(l, s, team, t, start, M);
    for (int64_t i = team->begin * J; i < team->end * J; i++) {
        int64_t set = keys_of(l, s, i / J) + start * K;
        const float *mask = mask_of(l, s, t, i / H);
        float *p = w + i * C;
        if (!M) {
            memset(y + i * K, 0, K * sizeof(float));
            continue;
        }
        ask(q + i * K, k + set, M, K, scores);
        for (int64_t j = 0; j < M; j++) p[j] = scores[j] + (apart ? p[j] : 0);
        if (s->fade)
            for (int64_t j = 0; j < M; j++) p[j] += s->fade[(i % H + 1) * s->fades - M + j];
        if (mask)
            for (int64_t j = 0; j < M; j++) p[j] += mask[start + j];
        softmax(p, M);
        if (s->drops) { /* a minus sign marks a dropped weight for backward */
            const uint8_t *stay = s->stay + (t * l->rows * H + i) * C + start;
            for (int64_t j = 0; j < M; j++) scores[j] = stay[j] ? p[j] : 0, p[j] = stay[j] ? p[j] : -p[j];
        }
        blend(s->drops ? scores : p, v + set, M, K, y + i * K);
    }
}

/* act(h), or act(one half)·the other, of this thread's features, written where the second product reads it. */
static void activated(const Loop *l, const Sublayer *s, const Team *team, int64_t t, const float *h, int64_t from,
                      int64_t to) {
    int64_t F = s->leave.in, W = s->enter.out;
    for (int64_t b = team->first; b < team->first + team->rows; b++) {
        float *y = l->wide + b * F;
        memcpy(y + from, h + b * W + from, (to - from) * sizeof(float));
        activate(s->activation, y + from, to - from);
        if (s->gated)
            for (int64_t f = from; f < to; f++) y[f] *= h[b * W + F + f];
        if (s->stay) drop(s->stay + (t * l->rows + b) * F + from, y + from, to - from);
    }
}

static const float *feed(const Loop *l, const Sublayer *s, const Team *team, int64_t t, const float *u) {
    int64_t D = l->dim, F = s->leave.in, W = s->enter.out, first = team->first, from, to;
    float *h = at(l, s->h, t, W);
    share(team, W, &from, &to);
    fill(&s->enter, u, D, team->rows, from, to, h + first * W, W, team->room);
    if (s->gated) {
        WAIT
        share(team, F, &from, &to);
    }
    activated(l, s, team, t, h, from, to);
    return l->wide;
}

static const float *recall(const Loop *l, const Sublayer *s, const Team *team, int64_t t, const float *u) {
    int64_t Z = l->heads * l->size, from, to;
    share(team, Z, &from, &to);
    fill(&s->enter, u, l->dim, team->rows, from, to, at(l, s->q, t, Z) + team->first * Z, Z, team->room);
    WAIT
    attend(l, s, team, t);
    return at(l, s->y, t, Z);
}

static void step(const Loop *l, const Sublayer *s, const Team *team, int64_t t, const float *x, float *out) {
    int64_t D = l->dim, first = team->first, from, to, W = s->leave.in;
    const float *u = x + first * D, *y;
    float *sum = s->after.kind ? at(l, s->sum, t, D) : out;
    if (s->before.kind) {
        for (int64_t b = 0; b < team->rows; b++) normalise(&s->before, u + b * D, team->mine + b * D, D);
        u = team->mine;
    }
    y = s->attends ? recall(l, s, team, t, u) : feed(l, s, team, t, u);
    WAIT
    share(team, D, &from, &to);
    fill(&s->leave, y + first * W, W, team->rows, from, to, sum + first * D, D, team->room);
    for (int64_t b = first; b < first + team->rows; b++) {
        if (s->stay_out) drop(s->stay_out + (t * l->rows + b) * D + from, sum + b * D + from, to - from);
        for (int64_t d = from; d < to; d++) sum[b * D + d] += x[b * D + d];
    }
    WAIT
    if (s->after.kind) {
        for (int64_t b = team->from; b < team->to; b++) normalise(&s->after, sum + b * D, out + b * D, D);
        WAIT
    }
}

/* Layer outputs → memory vectors → keys and values for later tokens. */
static void remember(const Loop *l, const Team *team, int64_t t) {
    int64_t B = l->rows, D = l->dim, G = l->groups, K = l->size, Z = 2 * G * K, from, to, where = l->memory + t;
    float *m = l->m + t * l->streams * B * D, *in = l->made, *kv = in + l->streams * B * D;
    for (int64_t r = 0; r < l->streams; r++)
        for (int64_t b = team->from; b < team->to; b++) {
            float *row = m + (r * B + b) * D;
            memset(row, 0, D * sizeof(float));
            for (int64_t n = 0; n < l->layers; n++) {
                const float *x = l->x + ((l->ends[n] * l->tokens + t) * B + b) * D;
                float weight = l->compose[r * l->layers + n];
                for (int64_t d = 0; d < D; d++) row[d] += weight * x[d];
            }
            normalise(&l->entry, row, in + (r * B + b) * D, D);
        }
    WAIT
    for (int64_t a = 0; a < l->sets; a++) {
        const float *x = in + (l->stream[a] * B + team->first) * D;
        share(team, Z, &from, &to);
        fill(l->project + a, x, D, team->rows, from, to, kv + (a * B + team->first) * Z, Z, team->room);
    }
    WAIT
    for (int64_t a = 0; a < l->sets; a++)
        for (int64_t i = team->begin; i < team->end; i++) {
            const float *k = kv + ((a * B + i / G) * 2 * G + i % G) * K;
            int64_t to = ((a * B * G + i) * l->capacity + where) * K;
            memcpy(l->k + to, k, K * sizeof(float));
            memcpy(l->v + to, k + G * K, K * sizeof(float));
            rotate_at(l, t, i / G, l->k + to, 0);
        }
}

static void forwards(const Loop *l) {
    Team here = joined(l), *team = &here;
    pack_all(l);
#pragma omp barrier
    for (int64_t t = 0; t < l->tokens; t++) {
        for (int64_t n = 0; n < l->sublayers; n++) {
            float *x = l->x + (n * l->tokens + t) * l->rows * l->dim;
            step(l, l->sublayer + n, team, t, x, x + l->tokens * l->rows * l->dim);
        }
        remember(l, team, t);
    }
}

void sublayer_loop(const Loop *l) {
#pragma omp parallel num_threads(l->threads)
    forwards(l);
}

/* Packs the matrices for sublayer_loop_back, once for all blocks. */
void sublayer_loop_pack(const Loop *l) {
#pragma omp parallel num_threads(l->threads)
    pack_all(l);
}

/* Tokens [start, stop), the last first. */
void sublayer_loop_back(const Loop *l, int64_t start, int64_t stop) {
#pragma omp parallel num_threads(l->threads)
    {
        Team here = joined(l);
        for (int64_t t = stop - 1; t >= start; t--) back(l, &here, t, start);
    }
}
