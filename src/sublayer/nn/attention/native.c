/* softmax(q kᵀ · scale + bias) v and its gradient, where each query sees given intervals of keys.

   Its slow twin is banded.py's `attend`. What queries see is a disjoint union of *bands*: an order of queries, an order of
   keys, and for each query one interval [lo, hi) in the order of keys. Dense attention is one band. Queries go a few at a
   time (a tile), keys in blocks that stay in the processor's caches, from the first key that any query of the tile sees
   to the last. Each band's output is merged into the row's by the logarithms of their sums, so no row of scores is ever
   held whole. Each thread has its own heads, so sums never depend on the number of threads.

   Within a tile neither lo nor hi falls from one query to the next. So the queries that see a given key stand side by
   side, and each product leaves out, but for a few at the edges, the pairs that are not seen.

   Backward does not read the weights but recomputes them: forward saves log Σ exp(scores) of each row over all bands, and
   exp(score − that) is the weight. So bands and blocks need nothing of each other.

   B batch, H query heads on G key heads of size K, a multiple of WIDE, L queries, M keys. native.py declares the same
   structs. */

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512") /* exponentials and dropout too */
#endif

#include <float.h>

#include "product.h"
#include "rows.h"

#define ROWS 48           /* queries of a tile at most */
#define HIGH UP(ROWS, TALL)
#define KEYS 768          /* keys at a time */
#define TILES 4           /* tiles that share their blocks of keys */
#define TURN 256          /* queries of which bands take turns */
#define SPARE 64          /* rows after the last key: a block begins and ends at a multiple of WIDE, its rows of TALL */
#define STRIDE (KEYS + 3 * WIDE)

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

INLINE float *log_of(const Attention *p, int64_t b, int64_t h, int64_t i) {
    return p->logs + (b * p->heads + h) * p->length + i;
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

/* Whether keys may be hidden one by one. */
INLINE int hides(const Attention *p) {
    return p->valid || p->bias.at;
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
    int64_t R, first, n, later; /* a tile that comes later */
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

/* Queries of a block, side by side, that see some of the keys in question. */
typedef struct {
    int64_t first, end;
} Seeing;

/* The next ones: those that see some of `width` keys from c on, which is not before the c of the last call. */
INLINE void advance(Seeing *s, const Block *block, int64_t c, int64_t width) {
    while (s->first < block->R && block->rows[s->first].hi <= c) s->first++;
    while (s->end < block->R && block->rows[s->end].lo < c + width) s->end++;
}

/* The first tall row of them. */
INLINE int64_t tall_first(Seeing s) {
    return s.first < s.end ? s.first / TALL * TALL : UP(s.end, TALL);
}

/* `vectors` of columns of a (rows, K) bᵀ from column c on, for the tall rows [first, end). */
INLINE void meet_some(int vectors, int64_t first, int64_t end, int64_t c, int64_t K, const float *a, const float *b, float *out) {
    if (first < end)
        columns(vectors, end - first, K, a + first * K, K, 1, b + c / WIDE * K * WIDE + c % WIDE, K * WIDE, WIDE, out + first * STRIDE + c, STRIDE, 0);
}

/* out = a bᵀ where queries see keys: a has the tile's rows, b the block's keys in panels. */
static void meet(const Block *block, int64_t K, const float *a, const float *b, float *out) {
    Seeing left = {0}, right = {0};
    for (int64_t c = 0; c < block->n; c += 2 * VECTOR) {
        advance(&left, block, c, VECTOR);
        advance(&right, block, c + VECTOR, VECTOR);
        int64_t l = tall_first(left), r = tall_first(right), end = UP(left.end, TALL);
        meet_some(1, l, MIN(r, end), c, K, a, b, out);
        meet_some(2, r, end, c, K, a, b, out);
        meet_some(1, MAX(r, end), UP(right.end, TALL), c + VECTOR, K, a, b, out);
    }
}

/* out += weights · rows: for each query the sum over the keys that it sees. */
static void collect(const Block *block, int64_t K, const float *weight, const float *rows, float *out) {
    for (int64_t r = 0; r < block->R; r += TALL) {
        int64_t lo = block->rows[r].lo, hi = block->rows[MIN(r + TALL, block->R) - 1].hi;
        if (lo < hi) product(TALL, K, hi - lo, weight + r * STRIDE + lo, STRIDE, 1, rows + lo * K, WIDE, K, out + r * K, K, 1);
    }
}

/* out += weightsᵀ · rows: for each key the sum over the queries that see it. */
static void spread(const Block *block, int64_t K, const float *weight, const float *rows, float *out) {
    Seeing seeing = {0};
    for (int64_t c = 0; c < block->n; c += TALL) {
        advance(&seeing, block, c, TALL);
        int64_t first = seeing.first, count = seeing.end - first;
        if (count > 0) product(TALL, K, count, weight + first * STRIDE + c, 1, STRIDE, rows + first * K, WIDE, K, out + c * K, K, 1);
    }
}

/* Zeros where a product reads a row's weights beside what it sees: as far as the TALL rows around it see, and as far as a
   TALL of keys goes. */
INLINE void clear_row(const Block *block, int64_t r, int seen, float *x) {
    const Sight *row = block->rows + MIN(r, block->R - 1);
    int64_t begin = r / TALL * TALL, lo = block->rows[begin].lo, hi = block->rows[MIN(begin + TALL, block->R) - 1].hi;
    lo = MAX(BEGIN(lo) - VECTOR, 0), hi = UP(hi, VECTOR) + VECTOR;
    if (seen)
        clear_beside(x, lo, row->lo, row->hi, hi);
    else
        clear_beside(x, lo, hi, hi, hi);
}

/* What a thread works in. N is the most keys of a band, and SPARE more. */
typedef struct {
    float *k, *v, *q, *y, *score;                         /* N, N, TILES · HIGH twice, HIGH · STRIDE */
    float *done;                                          /* int64_t: tiles of each band that have had their turn */
    float *rows, *to_k, *to_v, *to_q, *to_score, *begun;  /* of backward; uint8_t: queries whose gradient has been begun */
    int64_t ready;                                        /* so many keys are prepared */
    const Band *leads;                                    /* the band whose queries are fetched ahead */
    int backward;
} Room;

/* Parts of `room`, and how many floats they are in all. */
static int64_t lay_out(const Attention *p, int backward, float *room, Room *out) {
    int64_t K = p->size, N = (UP(p->most, WIDE) + SPARE) * K, tiles = TILES * HIGH * K, scores = HIGH * STRIDE;
    float **parts[] = {&out->k, &out->v, &out->q, &out->y, &out->score, &out->done, &out->rows, &out->to_k, &out->to_v, &out->to_q, &out->to_score, &out->begun};
    int64_t sizes[] = {N, N, tiles, tiles, scores, 2 * p->band_count, N, N, N, tiles, scores, p->heads / p->groups * p->length / 4 + 1}, taken = 0;
    for (int n = 0; n < (backward ? 12 : 6); n++) {
        *parts[n] = room + taken;
        taken += UP(sizes[n], WIDE);
    }
    out->backward = backward;
    return taken;
}

/* Keys and values of a band's order, up to `end` and as far beyond as products read, in the forms in which they do. As
   late as they are wanted: then they are still in the caches. */
static void prepare(const Attention *p, const Band *band, int64_t b, int64_t g, int64_t end, Room *room) {
    int64_t K = p->size, from = room->ready, to = MIN(UP(end, WIDE) + SPARE, UP(p->most, WIDE) + SPARE);
    if (to <= from) return;
    int64_t rows = to - from, R = MIN(MAX(band->key_count - from, 0), rows), skipped = band->keys ? 0 : from;
    const int32_t *order = band->keys ? band->keys + from : 0;
    const float *k = head(p->k, b, g) + skipped * p->k.l, *v = head(p->v, b, g) + skipped * p->v.l;
    room->ready = to;
    transpose(k, p->k.l, order, R, rows, K, room->k + from * K);
    if (!room->backward) {
        gather(v, p->v.l, order, R, rows, K, 1, room->v + from * K);
        return;
    }
    transpose(v, p->v.l, order, R, rows, K, room->v + from * K);
    gather(k, p->k.l, order, R, rows, K, p->scale, room->rows + from * K);
    memset(room->to_k + from * K, 0, rows * K * sizeof(float));
    memset(room->to_v + from * K, 0, rows * K * sizeof(float));
}

/* Query n of a tile. */
INLINE int64_t query(const Band *band, int64_t tile, int64_t n) {
    return at(band->queries, band->tiles[tile] + n);
}

INLINE int64_t size_of(const Band *band, int64_t tile) {
    return band->tiles[tile + 1] - band->tiles[tile];
}

INLINE void fetch(const float *x, int64_t K) {
    for (int64_t k = 0; k < K; k += 64 / sizeof(float)) __builtin_prefetch(x + k, 0, 2);
}

/* Query r of a tile that comes later, and the last key that it sees, on their way into the caches while products are
   formed: rows of one head lie too far apart for the processor to foresee them. */
INLINE void fetch_ahead(const Attention *p, const Band *band, int64_t b, int64_t h, int64_t tile, int64_t r, const Room *room) {
    if (band != room->leads || tile >= band->tile_count || r >= size_of(band, tile)) return;
    int64_t i = query(band, tile, r), key = band->hi[band->tiles[tile] + r] + SPARE - 1, g = h / (p->heads / p->groups);
    fetch(head(p->q, b, h) + i * p->q.l, p->size);
    fetch(head(p->y, b, h) + i * p->y.l, p->size);
    if (room->backward) {
        fetch(head(p->to_y, b, h) + i * p->to_y.l, p->size);
        fetch(head(p->to_q, b, h) + i * p->to_q.l, p->size);
    }
    if (key < room->ready || key >= band->key_count) return;
    fetch(head(p->k, b, g) + at(band->keys, key) * p->k.l, p->size);
    fetch(head(p->v, b, g) + at(band->keys, key) * p->v.l, p->size);
}

/* to (TILES · HIGH, K): the rows of a group's queries, scaled; zeros up to a multiple of TALL. */
static void gather_tiles(Heads from, int64_t b, int64_t h, const Band *band, const Group *group, int64_t K, float scale, float *to) {
    for (int64_t t = 0; t < group->count; t++, to += HIGH * K) {
        int64_t tile = group->first + t, R = size_of(band, tile);
        for (int64_t r = 0; r < R; r++)
            gather(head(from, b, h) + query(band, tile, r) * from.l, 0, 0, 1, 1, K, scale, to + r * K);
        memset(to + R * K, 0, (UP(R, TALL) - R) * K * sizeof(float));
    }
}

/* What queries have of a band so far: Σ e^(score − top) v in y, Σ e^(score − top), and the highest score. */
typedef struct {
    float *y, *sums, *tops;
} Found;

static void rescale(Found *found, int64_t r, float top, int64_t K) {
    float by = expf(found->tops[r] - top);
    found->sums[r] *= by;
    for (int64_t k = 0; k < K; k++) found->y[r * K + k] *= by;
}

static void forward_block(const Attention *p, const Block *block, const float *q, const Room *room, Found found) {
    int64_t K = p->size, here = block->first * K;
    meet(block, K, q, room->k + here, room->score);
    for (int64_t r = 0; r < UP(block->R, TALL); r++) {
        float *x = room->score + r * STRIDE;
        const Sight *s = block->rows + r;
        fetch_ahead(p, block->rows->band, block->rows->b, block->rows->h, block->later, r, room);
        int seen = r < block->R && s->lo < s->hi;
        if (seen) {
            biased(s, x);
            float top = MAX(found.tops[r], highest(x, s->lo, s->hi));
            if (found.tops[r] != -FLT_MAX && found.tops[r] != top) rescale(&found, r, top, K);
            found.tops[r] = top;
            found.sums[r] += hides(p) ? weigh(x, s->lo, s->hi, top, 1) : weigh(x, s->lo, s->hi, top, 0);
            if (p->drop) dropped(s, x);
        }
        clear_row(block, r, seen, x);
    }
    collect(block, K, room->score, room->v + here, found.y);
}

/* One band's part of a row's output joined with what the row has of others, by the logarithms of their sums. */
static void merge(float *y, float *log, const float *part, float sum, float top, int64_t K) {
    float part_log = top + logf(sum), new = 1 / sum;
    if (*log == -FLT_MAX) {
        for (int64_t k = 0; k < K; k++) y[k] = new * part[k];
        *log = part_log;
        return;
    }
    float high = MAX(*log, part_log), old = expf(*log - high), both = old + expf(part_log - high);
    old /= both;
    new *= expf(part_log - high) / both;
    for (int64_t k = 0; k < K; k++) y[k] = old * y[k] + new * part[k];
    *log = high + logf(both);
}

static void forward_group(const Attention *p, const Band *band, int64_t b, int64_t h, const Group *group, const Room *room) {
    int64_t K = p->size;
    float sums[TILES * HIGH] = {0}, tops[TILES * HIGH];
    for (int64_t n = 0; n < TILES * HIGH; n++) tops[n] = -FLT_MAX;
    gather_tiles(p->q, b, h, band, group, K, p->scale, room->q);
    memset(room->y, 0, group->count * HIGH * K * sizeof(float));
    for (int64_t from = group->from; from < group->end; from += KEYS)
        for (int64_t t = 0; t < group->count; t++) {
            int64_t first = MAX(from, group->froms[t]), end = MIN(from + KEYS, group->ends[t]), n = t * HIGH;
            if (first >= end) continue;
            Block block;
            see(p, band, b, h, group->first + t, first, end, &block);
            block.later = first == group->froms[t] ? group->first + t + TILES : band->tile_count;
            forward_block(p, &block, room->q + n * K, room, (Found){room->y + n * K, sums + n, tops + n});
        }
    for (int64_t t = 0; t < group->count; t++)
        for (int64_t r = 0, n = t * HIGH; r < size_of(band, group->first + t); r++, n++) {
            int64_t i = query(band, group->first + t, r);
            if (sums[n] != 0) merge(head(p->y, b, h) + i * p->y.l, log_of(p, b, h, i), room->y + n * K, sums[n], tops[n], K);
        }
}

typedef void Visit(const Attention *, const Band *, int64_t, int64_t, const Group *, const Room *);

/* Through `count` bands with one order of keys, for one head. They take turns: while one TURN of queries is in the
   caches, each band has its tiles of those, as far as its queries come in the order of the text. */
static void walk(const Attention *p, const Band *bands, int64_t count, int64_t b, int64_t h, Room *room, Visit *visit) {
    int64_t *done = (int64_t *)room->done;
    int last = 0;
    for (int64_t n = count - 1; n >= 0; n--)
        if (takes_part(bands + n, h)) room->leads = bands + n;
    memset(done, 0, count * sizeof(int64_t));
    for (int64_t end = TURN; !last; end += TURN) {
        last = count == 1 || end >= p->length;
        for (int64_t n = 0; n < count; n++) {
            const Band *band = bands + n;
            while (takes_part(band, h) && done[n] < band->tile_count && (last || query(band, done[n], 0) < end)) {
                Group group = grouped(band, done[n]);
                prepare(p, band, b, h / (p->heads / p->groups), group.end, room);
                visit(p, band, b, h, &group, room);
                done[n] += group.count;
            }
        }
    }
}

/* How many bands from the n-th on have its order of keys. */
static int64_t alike(const Attention *p, int64_t n) {
    int64_t end = n + 1;
    while (end < p->band_count && p->bands[end].keys == p->bands[n].keys) end++;
    return end - n;
}

static void forward(const Attention *p, int64_t b, int64_t g, float *at_room) {
    int64_t L = p->length, K = p->size, each = p->heads / p->groups;
    Room room;
    lay_out(p, 0, at_room, &room);
    for (int64_t n = 0; n < each * L; n++) log_of(p, b, g * each, 0)[n] = -FLT_MAX;
    for (int64_t n = 0, count; n < p->band_count; n += count) {
        const Band *band = p->bands + n;
        count = alike(p, n);
        room.ready = 0;
        for (int64_t h = g * each; h < g * each + each; h++) walk(p, band, count, b, h, &room, forward_group);
    }
    for (int64_t h = g * each; h < g * each + each; h++)
        for (int64_t i = 0; i < L; i++)
            if (*log_of(p, b, h, i) == -FLT_MAX) memset(head(p->y, b, h) + i * p->y.l, 0, K * sizeof(float));
}

/* Rows into a gradient, in the given order: added to what is there, or in its place. */
static void put_rows(const float *from, const int32_t *order, int64_t R, int64_t K, float *to, int64_t apart, int adds) {
    for (int64_t r = 0; r < R; r++) {
        const float *x = from + r * K;
        float *y = to + at(order, r) * apart;
        for (int64_t k = 0; k < K; k++) y[k] = adds ? y[k] + x[k] : x[k];
    }
}

static void zero_rows(Heads to, int64_t b, int64_t h, int64_t R, int64_t K) {
    for (int64_t r = 0; r < R; r++) memset(head(to, b, h) + r * to.l, 0, K * sizeof(float));
}

static void add_bias(const Sight *s, const float *to_score) {
    float *to = head(s->p->to_bias, s->b, s->h) + s->i * s->p->to_bias.l + s->p->zero - s->i;
    for (int64_t j = s->lo; j < s->hi; j++) to[at(s->band->keys, s->first + j)] += to_score[j];
}

/* From scores and dY Vᵀ to the weights, as they were dropped, and the gradient of the scores. */
static void backward_scores(const Attention *p, const Block *block, const float *means, const Room *room) {
    for (int64_t r = 0; r < UP(block->R, TALL); r++) {
        float *x = room->score + r * STRIDE, *to = room->to_score + r * STRIDE;
        const Sight *s = block->rows + r;
        fetch_ahead(p, block->rows->band, block->rows->b, block->rows->h, block->later, r, room);
        float log = r < block->R ? *log_of(p, s->b, s->h, s->i) : -FLT_MAX;
        int seen = r < block->R && s->lo < s->hi && log != -FLT_MAX;
        if (seen) {
            biased(s, x);
            if (p->drop) {
                weigh_again(x, s->lo, s->hi, log, hides(p));
                dropped_back(s, x, to, means[r]);
            } else if (hides(p))
                weigh_back(x, to, s->lo, s->hi, log, means[r], 1);
            else
                weigh_back(x, to, s->lo, s->hi, log, means[r], 0);
            clip_ends(to, s->lo, s->hi, 0);
            if (p->to_bias.at) add_bias(s, to);
        }
        clear_row(block, r, seen, x);
        clear_row(block, r, seen, to);
    }
}

static void scatter_tiles(const Attention *p, const Band *band, int64_t b, int64_t h, const Group *group, const Room *room) {
    int64_t K = p->size;
    uint8_t *begun = (uint8_t *)room->begun + h % (p->heads / p->groups) * p->length;
    for (int64_t t = 0; t < group->count; t++)
        for (int64_t r = 0; r < size_of(band, group->first + t); r++) {
            int64_t i = query(band, group->first + t, r);
            put_rows(room->to_q + (t * HIGH + r) * K, 0, 1, K, head(p->to_q, b, h) + i * p->to_q.l, 0, begun[i]);
            begun[i] = 1;
        }
}

/* Y · dY of a group's queries. */
static void dot_tiles(const Attention *p, const Band *band, int64_t b, int64_t h, const Group *group, const float *to_y, float *means) {
    for (int64_t t = 0; t < group->count; t++)
        for (int64_t r = 0, n = t * HIGH; r < size_of(band, group->first + t); r++, n++)
            means[n] = dot(head(p->y, b, h) + query(band, group->first + t, r) * p->y.l, to_y + n * p->size, p->size);
}

static void backward_group(const Attention *p, const Band *band, int64_t b, int64_t h, const Group *group, const Room *room) {
    int64_t K = p->size;
    float means[TILES * HIGH];
    gather_tiles(p->q, b, h, band, group, K, p->scale, room->q);
    gather_tiles(p->to_y, b, h, band, group, K, 1, room->y);
    dot_tiles(p, band, b, h, group, room->y, means);
    memset(room->to_q, 0, group->count * HIGH * K * sizeof(float));
    for (int64_t from = group->from; from < group->end; from += KEYS)
        for (int64_t t = 0; t < group->count; t++) {
            int64_t first = MAX(from, group->froms[t]), end = MIN(from + KEYS, group->ends[t]), n = t * HIGH * K;
            if (first >= end) continue;
            Block block;
            see(p, band, b, h, group->first + t, first, end, &block);
            block.later = first == group->froms[t] ? group->first + t + TILES : band->tile_count;
            int64_t here = block.first * K;
            meet(&block, K, room->q + n, room->k + here, room->score);
            meet(&block, K, room->y + n, room->v + here, room->to_score);
            backward_scores(p, &block, means + t * HIGH, room);
            spread(&block, K, room->score, room->y + n, room->to_v + here);
            spread(&block, K, room->to_score, room->q + n, room->to_k + here);
            collect(&block, K, room->to_score, room->rows + here, room->to_q + n);
        }
    scatter_tiles(p, band, b, h, group, room);
}

/* With P the weights and S the scores: dV = Pᵀ dY, dP = dY Vᵀ, dS = P (dP − Σ P dP), dQ = dS K, dK = dSᵀ Q; and over all
   keys of a row, Σ P dP = Y · dY. */
static void backward(const Attention *p, int64_t b, int64_t g, float *at_room) {
    int64_t L = p->length, K = p->size, each = p->heads / p->groups;
    int whole = p->band_count && !p->bands[0].keys; /* the first order has all keys */
    Room room;
    lay_out(p, 1, at_room, &room);
    memset(room.begun, 0, each * L);
    if (!whole) zero_rows(p->to_k, b, g, p->keys, K), zero_rows(p->to_v, b, g, p->keys, K);
    for (int64_t n = 0, count; n < p->band_count; n += count) {
        const Band *band = p->bands + n;
        count = alike(p, n);
        room.ready = 0;
        for (int64_t h = g * each; h < g * each + each; h++) walk(p, band, count, b, h, &room, backward_group);
        prepare(p, band, b, g, band->key_count, &room); /* keys that nobody sees */
        put_rows(room.to_k, band->keys, band->key_count, K, head(p->to_k, b, g), p->to_k.l, n || !whole);
        put_rows(room.to_v, band->keys, band->key_count, K, head(p->to_v, b, g), p->to_v.l, n || !whole);
    }
    for (int64_t h = 0; h < each; h++)
        for (int64_t i = 0; i < L; i++)
            if (!((uint8_t *)room.begun)[h * L + i]) memset(head(p->to_q, b, g * each + h) + i * p->to_q.l, 0, K * sizeof(float));
}

INLINE void share(const Attention *p, void (*run)(const Attention *, int64_t, int64_t, float *)) {
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t n = 0; n < p->batch * p->groups; n++)
        run(p, n / p->groups, n % p->groups, p->room + THREAD * p->private);
}

/* Sets `private`. */
void sublayer_attend_room(Attention *p, int backward) {
    Room room;
    p->private = lay_out(p, backward, 0, &room);
}

void sublayer_attend(const Attention *p) {
    share(p, forward);
}

void sublayer_attend_backward(const Attention *p) {
    share(p, backward);
}
