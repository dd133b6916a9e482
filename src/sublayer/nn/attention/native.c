/* softmax(q kᵀ · scale + bias) v and its gradient, where each query sees given intervals of keys.

   Its slow twin is banded.py's `attend`. What queries see is a disjoint union of *bands*: an order of queries, an order of
   keys, and for each query one interval [lo, hi) in the order of keys. Dense attention is one band. Queries go a few at a
   time (a tile), keys in blocks that stay in the processor's caches, from the first key that any query of the tile sees
   to the last. Each block's output is merged into the row's by the logarithms of their sums, so no row of scores is ever
   held whole. Each thread has its own heads, so sums never depend on the number of threads.

   Backward does not read the weights but recomputes them: forward saves log Σ exp(scores) of each row over all bands, and
   exp(score − that) is the weight. So bands and blocks need nothing of each other.

   B batch, H query heads on G key heads of size K, a multiple of WIDE, L queries, M keys. native.py declares the same
   structs. */

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512") /* exponentials and dropout too */
#endif

#include <float.h>

#include "product.h"

#define ROWS 24           /* queries at a time: few, since products beyond an interval's edge are wasted */
#define KEYS 768          /* keys at a time */
#define TILES 8           /* tiles that share their blocks of keys */
#define SPARE 64          /* rows after the last key: a block begins and ends at a multiple of WIDE, its rows of TALL */
#define STRIDE (KEYS + 2 * WIDE)

typedef struct {
    const int32_t *queries, *keys; /* their orders; NULL: as they come */
    const int32_t *lo, *hi;        /* for each query in its order, what it sees of the keys in theirs */
    const int32_t *tiles;          /* where tiles begin, and where the last one ends */
    const uint8_t *heads;          /* for each head whether the band is one of its; NULL: of all */
    int64_t tile_count, key_count;
} Band;

typedef struct {
    int64_t batch, heads, groups, length, keys, most, size, threads, band_count;
    const Band *bands;
    double scale;
    Heads q, k, v, y, to_y;
    float *logs;          /* (B, H, L) log Σ exp(scores) of each row */
    const uint8_t *valid; /* (B, M) 0 on keys that nobody sees; NULL: there are none */
    Heads bias, to_bias;  /* added to scores: of query i on key j at [zero + j − i]; at is NULL: none. A stride may be 0 */
    int64_t zero;
    uint64_t seed;        /* of dropout */
    int64_t drop;         /* weights whose 32 random bits are below this are dropped; 0: none */
    double undropped;     /* 1/(1 − p): factor of the others */
    Heads to_q, to_k, to_v;
    float *room;
    int64_t private; /* floats of `room` for each thread */
} Attention;

/* 32 bits that look random: MurmurHash3's last step. dropout.py computes the same. */
INLINE uint32_t mixed(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
}

/* What one block of keys is to one query: x[j] for key `first + j` of the band's order, of which it sees [lo, hi). */
typedef struct {
    const Attention *p;
    const Band *band;
    int64_t b, h, i, first, lo, hi;
} Sight;

INLINE float *log_of(const Sight *s) {
    return s->p->logs + (s->b * s->p->heads + s->h) * s->p->length + s->i;
}

/* The bias on x. Hidden keys get -FLT_MAX, and so does a bias of -inf: inf - inf would be NaN. */
static void biased(const Sight *s, float *x) {
    const Attention *p = s->p;
    const int32_t *keys = s->band->keys;
    if (p->bias.at) {
        const float *bias = head(p->bias, s->b, s->h) + s->i * p->bias.l + p->zero - s->i;
        for (int64_t j = s->lo; j < s->hi; j++) {
            float sum = x[j] + bias[at(keys, s->first + j)];
            x[j] = sum < -FLT_MAX ? -FLT_MAX : sum;
        }
    }
    if (p->valid) {
        const uint8_t *valid = p->valid + s->b * p->keys;
        for (int64_t j = s->lo; j < s->hi; j++) x[j] = valid[at(keys, s->first + j)] ? x[j] : -FLT_MAX;
    }
}

/* x[j] = e^(x[j] − top) where it sees, 0 elsewhere up to `all`; the sum of all. */
static float exponentials(const Sight *s, float *x, float top, int64_t all) {
    memset(x, 0, s->lo * sizeof(float));
    if (s->p->valid || s->p->bias.at)
        for (int64_t j = s->lo; j < s->hi; j++) x[j] = x[j] == -FLT_MAX ? 0 : exponential(x[j] - top);
    else
        for (int64_t j = s->lo; j < s->hi; j++) x[j] = exponential(x[j] - top);
    memset(x + s->hi, 0, (all - s->hi) * sizeof(float));
    return sum(x + s->lo, s->hi - s->lo);
}

/* The random bits of a query, from which those of its weights are made. */
static uint32_t row_bits(const Sight *s) {
    const Attention *p = s->p;
    uint32_t row = (uint32_t)((s->b * p->heads + s->h) * p->length + s->i);
    return mixed((uint32_t)(p->seed >> 32) ^ mixed((uint32_t)p->seed + row));
}

/* 0 or 1/(1 − p): the factor of a weight, at random, but the same whenever the same query meets the same key. */
INLINE float drop_factor(uint32_t row, int64_t key, int32_t drop, float undropped) {
    /* Signed and without the lowest bit, since processors compare vectors of signed numbers only. */
    return (int32_t)(mixed((uint32_t)key * 0x9E3779B1u + row) >> 1) < drop ? 0 : undropped;
}

/* Weights x as they are dropped. */
static void dropped(const Sight *s, float *x) {
    const int32_t *keys = s->band->keys, drop = (int32_t)(s->p->drop >> 1);
    uint32_t row = row_bits(s);
    float undropped = s->p->undropped;
    for (int64_t j = s->lo; j < s->hi; j++) x[j] *= drop_factor(row, at(keys, s->first + j), drop, undropped);
}

/* From weights P and dP to P·keep, of which dV is made, and P (keep·dP − mean). */
static void dropped_back(const Sight *s, float *x, float *to, float mean) {
    const int32_t *keys = s->band->keys, drop = (int32_t)(s->p->drop >> 1);
    uint32_t row = row_bits(s);
    float undropped = s->p->undropped;
    for (int64_t j = s->lo; j < s->hi; j++) {
        float keep = drop_factor(row, at(keys, s->first + j), drop, undropped);
        to[j] = x[j] * (keep * to[j] - mean);
        x[j] *= keep;
    }
}

/* A tile of queries on one block of keys: `n` of them from `first` on. */
typedef struct {
    int64_t R, first, n;
    Sight rows[ROWS];
} Block;

static void see(const Attention *p, const Band *band, int64_t b, int64_t h, int64_t tile, int64_t from, int64_t next, Block *out) {
    int64_t begin = band->tiles[tile];
    out->R = band->tiles[tile + 1] - begin;
    out->first = from / WIDE * WIDE;
    out->n = UP(next - out->first, WIDE);
    for (int64_t r = 0; r < out->R; r++) {
        int64_t lo = MIN(MAX(band->lo[begin + r], from), next), hi = MIN(MAX(band->hi[begin + r], lo), next);
        out->rows[r] = (Sight){p, band, b, h, at(band->queries, begin + r), out->first, lo - out->first, hi - out->first};
    }
}

/* The first key that any query of a tile sees, and the end of the last. */
static int64_t edges(const Band *band, int64_t tile, int64_t *end) {
    int64_t first = INT64_MAX;
    *end = 0;
    for (int64_t n = band->tiles[tile]; n < band->tiles[tile + 1]; n++)
        if (band->lo[n] < band->hi[n]) {
            first = MIN(first, band->lo[n]);
            *end = MAX(*end, band->hi[n]);
        }
    return first;
}

/* Some tiles that go through the blocks of keys together, so that each block is read into the caches once for all. */
typedef struct {
    int64_t first, count, from, end;
    int64_t froms[TILES], ends[TILES];
} Group;

static Group grouped(const Band *band, int64_t tile) {
    Group group = {tile, MIN(TILES, band->tile_count - tile), INT64_MAX, 0};
    for (int64_t n = 0; n < group.count; n++) {
        group.froms[n] = edges(band, tile + n, group.ends + n);
        group.from = MIN(group.from, group.froms[n]);
        group.end = MAX(group.end, group.ends[n]);
    }
    group.from = group.end ? group.from / WIDE * WIDE : 0;
    return group;
}

INLINE int takes_part(const Band *band, int64_t h) {
    return !band->heads || band->heads[h];
}

/* One block's part of a row's output, with the logarithm of its sum of weights, joined with what the row has. */
static void merge(float *y, float *log, const float *part, float part_log, int64_t K) {
    if (*log == -FLT_MAX) {
        memcpy(y, part, K * sizeof(float));
        *log = part_log;
        return;
    }
    float top = MAX(*log, part_log), old = expf(*log - top), new = expf(part_log - top), both = old + new;
    for (int64_t k = 0; k < K; k++) y[k] = (old * y[k] + new * part[k]) / both;
    *log = top + logf(both);
}

/* to (TILES · ROWS, K): the rows of a group's queries, scaled; zeros where a tile has fewer. */
static void gather_tiles(Heads from, int64_t b, int64_t h, const Band *band, const Group *group, int64_t K, float scale, float *to) {
    for (int64_t t = 0; t < group->count; t++, to += ROWS * K) {
        int64_t begin = band->tiles[group->first + t], R = band->tiles[group->first + t + 1] - begin;
        for (int64_t r = 0; r < ROWS; r++)
            gather(head(from, b, h) + (r < R ? at(band->queries, begin + r) : 0) * from.l, 0, 0, r < R, 1, K, scale, to + r * K);
    }
}

static void forward_block(const Attention *p, const Block *block, const float *q, const float *k, const float *v, float *score, float *y) {
    int64_t K = p->size, R = block->R, tall = UP(R, TALL), first = block->first, width = block->n;
    float sums[ROWS], tops[ROWS];
    product(tall, width, K, q, K, 1, k + first * K, K * WIDE, WIDE, score, STRIDE, 0);
    for (int64_t r = 0; r < tall; r++) {
        float *x = score + r * STRIDE;
        const Sight *s = block->rows + r;
        sums[r] = 0;
        if (r >= R || s->lo == s->hi) {
            memset(x, 0, width * sizeof(float));
            continue;
        }
        biased(s, x);
        tops[r] = largest(x + s->lo, s->hi - s->lo);
        sums[r] = exponentials(s, x, tops[r], width);
        if (p->drop) dropped(s, x);
    }
    product(tall, K, width, score, STRIDE, 1, v + first * K, WIDE, K, y, K, 0);
    for (int64_t r = 0; r < R; r++) {
        const Sight *s = block->rows + r;
        if (sums[r] == 0) continue;
        /* Divided after the product: K divisions a row instead of one for each key. */
        for (int64_t e = 0; e < K; e++) y[r * K + e] /= sums[r];
        merge(head(p->y, s->b, s->h) + s->i * p->y.l, log_of(s), y + r * K, tops[r] + logf(sums[r]), K);
    }
}

static void forward(const Attention *p, int64_t b, int64_t g, float *room) {
    int64_t L = p->length, K = p->size, N = UP(p->most, WIDE) + SPARE, each = p->heads / p->groups;
    float *k = room, *v = k + N * K, *q = v + N * K, *y = q + TILES * ROWS * K, *score = y + ROWS * K;
    for (int64_t h = g * each; h < g * each + each; h++)
        for (int64_t i = 0; i < L; i++) {
            p->logs[(b * p->heads + h) * L + i] = -FLT_MAX;
            memset(head(p->y, b, h) + i * p->y.l, 0, K * sizeof(float));
        }
    for (int64_t n = 0; n < p->band_count; n++) {
        const Band *band = p->bands + n;
        if (!n || band->keys != band[-1].keys) {
            transpose(head(p->k, b, g), p->k.l, band->keys, band->key_count, N, K, k);
            gather(head(p->v, b, g), p->v.l, band->keys, band->key_count, N, K, 1, v);
        }
        for (int64_t h = g * each; h < g * each + each; h++)
            for (int64_t tile = 0; takes_part(band, h) && tile < band->tile_count; tile += TILES) {
                Group group = grouped(band, tile);
                gather_tiles(p->q, b, h, band, &group, K, p->scale, q);
                for (int64_t from = group.from; from < group.end; from += KEYS)
                    for (int64_t t = 0; t < group.count; t++) {
                        int64_t first = MAX(from, group.froms[t]), end = MIN(from + KEYS, group.ends[t]);
                        if (first >= end) continue;
                        Block block;
                        see(p, band, b, h, tile + t, first, end, &block);
                        forward_block(p, &block, q + t * ROWS * K, k, v, score, y);
                    }
            }
    }
}

static void add_rows(const float *from, const int32_t *order, int64_t R, int64_t K, float *to, int64_t apart) {
    for (int64_t r = 0; r < R; r++)
        for (int64_t k = 0; k < K; k++) to[at(order, r) * apart + k] += from[r * K + k];
}

static void zero_rows(Heads to, int64_t b, int64_t h, int64_t R, int64_t K) {
    for (int64_t r = 0; r < R; r++) memset(head(to, b, h) + r * to.l, 0, K * sizeof(float));
}

static void add_bias(const Sight *s, const float *to_score) {
    float *to = head(s->p->to_bias, s->b, s->h) + s->i * s->p->to_bias.l + s->p->zero - s->i;
    for (int64_t j = s->lo; j < s->hi; j++) to[at(s->band->keys, s->first + j)] += to_score[j];
}

/* From scores and dY Vᵀ to the weights, as they were dropped, and the gradient of the scores. */
static void backward_scores(const Attention *p, const Block *block, const float *to_y, float *weight, float *to_score) {
    int64_t K = p->size, tall = UP(block->R, TALL), high = UP(block->n, TALL);
    for (int64_t r = 0; r < tall; r++) {
        float *x = weight + r * STRIDE, *to = to_score + r * STRIDE;
        const Sight *s = block->rows + r;
        if (r >= block->R || s->lo == s->hi || *log_of(s) == -FLT_MAX) {
            memset(x, 0, high * sizeof(float));
            memset(to, 0, high * sizeof(float));
            continue;
        }
        float mean = dot(head(p->y, s->b, s->h) + s->i * p->y.l, to_y + r * K, K);
        biased(s, x);
        exponentials(s, x, *log_of(s), high);
        memset(to, 0, s->lo * sizeof(float));
        memset(to + s->hi, 0, (high - s->hi) * sizeof(float));
        if (p->drop)
            dropped_back(s, x, to, mean);
        else
            for (int64_t j = s->lo; j < s->hi; j++) to[j] = x[j] * (to[j] - mean);
        if (p->to_bias.at) add_bias(s, to);
    }
}

static void scatter_tiles(const float *from, Heads to, int64_t b, int64_t h, const Band *band, const Group *group, int64_t K) {
    for (int64_t t = 0; t < group->count; t++, from += ROWS * K) {
        int64_t begin = band->tiles[group->first + t], R = band->tiles[group->first + t + 1] - begin;
        for (int64_t r = 0; r < R; r++) add_rows(from + r * K, 0, 1, K, head(to, b, h) + at(band->queries, begin + r) * to.l, 0);
    }
}

/* With P the weights and S the scores: dV = Pᵀ dY, dP = dY Vᵀ, dS = P (dP − Σ P dP), dQ = dS K, dK = dSᵀ Q; and over all
   keys of a row, Σ P dP = Y · dY. */
static void backward(const Attention *p, int64_t b, int64_t g, float *room) {
    int64_t L = p->length, K = p->size, N = UP(p->most, WIDE) + SPARE, each = p->heads / p->groups;
    float *k = room, *v = k + N * K, *rows = v + N * K, *to_k = rows + N * K, *to_v = to_k + N * K;
    float *q = to_v + N * K, *y = q + TILES * ROWS * K, *to_q = y + TILES * ROWS * K, *weight = to_q + TILES * ROWS * K, *to_score = weight + ROWS * STRIDE;
    zero_rows(p->to_k, b, g, p->keys, K);
    zero_rows(p->to_v, b, g, p->keys, K);
    for (int64_t h = g * each; h < g * each + each; h++) zero_rows(p->to_q, b, h, L, K);
    for (int64_t n = 0; n < p->band_count; n++) {
        const Band *band = p->bands + n;
        if (!n || band->keys != band[-1].keys) {
            transpose(head(p->k, b, g), p->k.l, band->keys, band->key_count, N, K, k);
            transpose(head(p->v, b, g), p->v.l, band->keys, band->key_count, N, K, v);
            gather(head(p->k, b, g), p->k.l, band->keys, band->key_count, N, K, p->scale, rows);
            memset(to_k, 0, 2 * N * K * sizeof(float));
        }
        for (int64_t h = g * each; h < g * each + each; h++)
            for (int64_t tile = 0; takes_part(band, h) && tile < band->tile_count; tile += TILES) {
                Group group = grouped(band, tile);
                gather_tiles(p->q, b, h, band, &group, K, p->scale, q);
                gather_tiles(p->to_y, b, h, band, &group, K, 1, y);
                memset(to_q, 0, TILES * ROWS * K * sizeof(float));
                for (int64_t from = group.from; from < group.end; from += KEYS)
                    for (int64_t t = 0; t < group.count; t++) {
                        int64_t first = MAX(from, group.froms[t]), end = MIN(from + KEYS, group.ends[t]), rest = t * ROWS * K;
                        if (first >= end) continue;
                        Block block;
                        see(p, band, b, h, tile + t, first, end, &block);
                        int64_t tall = UP(block.R, TALL), width = block.n, high = UP(width, TALL), here = block.first * K;
                        product(tall, width, K, q + rest, K, 1, k + here, K * WIDE, WIDE, weight, STRIDE, 0);
                        product(tall, width, K, y + rest, K, 1, v + here, K * WIDE, WIDE, to_score, STRIDE, 0);
                        backward_scores(p, &block, y + rest, weight, to_score);
                        product(high, K, tall, weight, 1, STRIDE, y + rest, WIDE, K, to_v + here, K, 1);
                        product(high, K, tall, to_score, 1, STRIDE, q + rest, WIDE, K, to_k + here, K, 1);
                        product(tall, K, width, to_score, STRIDE, 1, rows + here, WIDE, K, to_q + rest, K, 1);
                    }
                scatter_tiles(to_q, p->to_q, b, h, band, &group, K);
            }
        if (n + 1 == p->band_count || band->keys != band[1].keys) {
            add_rows(to_k, band->keys, band->key_count, K, head(p->to_k, b, g), p->to_k.l);
            add_rows(to_v, band->keys, band->key_count, K, head(p->to_v, b, g), p->to_v.l);
        }
    }
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
