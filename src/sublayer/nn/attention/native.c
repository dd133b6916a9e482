/* softmax(q kᵀ · scale + bias) v and its gradient, where each query sees given intervals of keys.

   Its slow twin is banded.py's `attend`. What queries see is a disjoint union of *bands*: an order of queries, an order of
   keys, and for each query one interval [lo, hi) in the order of keys. Dense attention is one band. Queries go a few at a
   time (a tile), keys in blocks that stay in the processor's caches, from the first key that any query of the tile sees
   to the last. Each band's output is merged into the row's by the logarithms of their sums, so no row of scores is ever
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
#include "rows.h"
#include "sight.h"
#include "blocks.h"
#include "room.h"

#define TURN 256          /* queries of which bands take turns */

/* A tile of queries on one block of keys; `sums` of e^(score − top) and `tops`, the highest score of each row so far. */
static void forward_block(const Room *room, const Block *block, int64_t t, int64_t later, float *sums, float *tops) {
    const Attention *p = room->p;
    int64_t K = p->size, here = block->first * K;
    float *y = room->y + t * HIGH * K;
    meet(block, K, room->q + t * HIGH * K, room->k + here, room->score);
    for (int64_t r = 0; r < UP(block->R, TALL); r++) {
        float *x = room->score + r * STRIDE;
        const Sight *s = block->rows + r;
        int sees = r < block->R && s->lo < s->hi;
        fetch_ahead(room, block->rows->band, later, r);
        if (sees) {
            biased(s, x);
            float top = MAX(tops[r], highest(x, s->lo, s->hi));
            if (tops[r] != -FLT_MAX && tops[r] != top) {
                float by = expf(tops[r] - top);
                sums[r] *= by;
                for (int64_t k = 0; k < K; k++) y[r * K + k] *= by;
            }
            tops[r] = top;
            sums[r] += hides(p) ? weigh(x, s->lo, s->hi, top, 1) : weigh(x, s->lo, s->hi, top, 0);
            if (p->drop) dropped(s, x);
        }
        clear_row(block, r, sees, x);
    }
    collect(block, K, room->score, room->v + here, y);
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

static void forward_group(const Room *room, const Band *band, const Group *group) {
    const Attention *p = room->p;
    int64_t K = p->size, b = room->b, h = room->h;
    float sums[TILES * HIGH] = {0}, tops[TILES * HIGH];
    for (int64_t n = 0; n < TILES * HIGH; n++) tops[n] = -FLT_MAX;
    gather_tiles(room, p->q, band, group, p->scale, room->q);
    memset(room->y, 0, group->count * HIGH * K * sizeof(float));
    for (int64_t from = group->from; from < group->end; from += KEYS)
        for (int64_t t = 0; t < group->count; t++) {
            int64_t tile = group->first + t, first = MAX(from, group->froms[t]), end = MIN(from + KEYS, group->ends[t]);
            if (first >= end) continue;
            Block block;
            see(p, band, b, h, tile, first, end, &block);
            forward_block(room, &block, t, first == group->froms[t] ? tile + TILES : band->tile_count, sums + t * HIGH, tops + t * HIGH);
        }
    for (int64_t t = 0; t < group->count; t++)
        for (int64_t r = 0, n = t * HIGH; r < size_of(band, group->first + t); r++, n++) {
            int64_t i = query(band, group->first + t, r);
            if (sums[n] != 0) merge(head(p->y, b, h) + i * p->y.l, log_of(p, b, h, i), room->y + n * K, sums[n], tops[n], K);
        }
}

typedef void Visit(const Room *, const Band *, const Group *);

/* One head through `count` bands with one order of keys. They take turns: while one TURN of queries is in the caches, each
   band has its tiles of those, as far as its queries come in the order of the text. */
static void walk(Room *room, const Band *bands, int64_t count, Visit *visit) {
    int last = 0;
    for (int64_t n = count - 1; n >= 0; n--)
        if (takes_part(bands + n, room->h)) room->leads = bands + n;
    memset(room->done, 0, count * sizeof(int64_t));
    for (int64_t end = TURN; !last; end += TURN) {
        last = count == 1 || end >= room->p->length;
        for (int64_t n = 0; n < count; n++) {
            const Band *band = bands + n;
            int64_t *done = room->done + n;
            while (takes_part(band, room->h) && *done < band->tile_count && (last || query(band, *done, 0) < end)) {
                Group group = grouped(band, *done);
                prepare(room, band, group.end);
                visit(room, band, &group);
                *done += group.count;
            }
        }
    }
}

/* All query heads of the room's key head, through the bands that share the n-th one's order of keys; how many these are. */
static int64_t walk_heads(Room *room, int64_t n, Visit *visit) {
    const Attention *p = room->p;
    int64_t end = n + 1;
    while (end < p->band_count && p->bands[end].keys == p->bands[n].keys) end++;
    room->ready = 0;
    for (int64_t h = 0; h < room->each; h++) {
        room->h = room->g * room->each + h;
        walk(room, p->bands + n, end - n, visit);
    }
    return end - n;
}

static void zero_row(Heads to, int64_t b, int64_t h, int64_t i, int64_t K) {
    memset(head(to, b, h) + i * to.l, 0, K * sizeof(float));
}

static void forward(Room *room) {
    const Attention *p = room->p;
    int64_t rows = room->each * p->length;
    float *logs = log_of(p, room->b, room->g * room->each, 0);
    for (int64_t n = 0; n < rows; n++) logs[n] = -FLT_MAX;
    for (int64_t n = 0; n < p->band_count;) n += walk_heads(room, n, forward_group);
    for (int64_t n = 0; n < rows; n++)
        if (logs[n] == -FLT_MAX) zero_row(p->y, room->b, room->g * room->each + n / p->length, n % p->length, p->size);
}

/* From scores and dY Vᵀ to the weights, as they were dropped, and the gradient of the scores. */
static void backward_scores(const Room *room, const Block *block, int64_t later, const float *means) {
    const Attention *p = room->p;
    for (int64_t r = 0; r < UP(block->R, TALL); r++) {
        float *x = room->score + r * STRIDE, *to = room->to_score + r * STRIDE;
        const Sight *s = block->rows + r;
        float log = r < block->R ? *log_of(p, s->b, s->h, s->i) : -FLT_MAX;
        int sees = r < block->R && s->lo < s->hi && log != -FLT_MAX;
        fetch_ahead(room, block->rows->band, later, r);
        if (sees) {
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
        clear_row(block, r, sees, x);
        clear_row(block, r, sees, to);
    }
}

static void backward_block(const Room *room, const Block *block, int64_t t, int64_t later, const float *means) {
    int64_t K = room->p->size, here = block->first * K;
    float *q = room->q + t * HIGH * K, *y = room->y + t * HIGH * K;
    meet(block, K, q, room->k + here, room->score);
    meet(block, K, y, room->v + here, room->to_score);
    backward_scores(room, block, later, means);
    spread(block, K, room->score, y, room->to_v + here);
    spread(block, K, room->to_score, q, room->to_k + here);
    collect(block, K, room->to_score, room->rows + here, room->to_q + t * HIGH * K);
}

/* `R` rows, in the given order; added to what is there, or in its place. */
static void put_rows(const float *from, const int32_t *order, int64_t R, int64_t K, float *to, int64_t apart, int adds) {
    for (int64_t r = 0; r < R; r++, from += K) {
        float *x = to + at(order, r) * apart;
        for (int64_t k = 0; k < K; k++) x[k] = adds ? x[k] + from[k] : from[k];
    }
}

static void backward_group(const Room *room, const Band *band, const Group *group) {
    const Attention *p = room->p;
    int64_t K = p->size, b = room->b, h = room->h;
    uint8_t *begun = room->begun + h % room->each * p->length;
    float means[TILES * HIGH]; /* Y · dY of each query */
    gather_tiles(room, p->q, band, group, p->scale, room->q);
    gather_tiles(room, p->to_y, band, group, 1, room->y);
    memset(room->to_q, 0, group->count * HIGH * K * sizeof(float));
    for (int64_t t = 0; t < group->count; t++)
        for (int64_t r = 0, n = t * HIGH; r < size_of(band, group->first + t); r++, n++)
            means[n] = dot(head(p->y, b, h) + query(band, group->first + t, r) * p->y.l, room->y + n * K, K);
    for (int64_t from = group->from; from < group->end; from += KEYS)
        for (int64_t t = 0; t < group->count; t++) {
            int64_t tile = group->first + t, first = MAX(from, group->froms[t]), end = MIN(from + KEYS, group->ends[t]);
            if (first >= end) continue;
            Block block;
            see(p, band, b, h, tile, first, end, &block);
            backward_block(room, &block, t, first == group->froms[t] ? tile + TILES : band->tile_count, means + t * HIGH);
        }
    for (int64_t t = 0; t < group->count; t++)
        for (int64_t r = 0; r < size_of(band, group->first + t); r++) {
            int64_t i = query(band, group->first + t, r);
            put_rows(room->to_q + (t * HIGH + r) * K, 0, 1, K, head(p->to_q, b, h) + i * p->to_q.l, 0, begun[i]);
            begun[i] = 1;
        }
}

/* With P the weights and S the scores: dV = Pᵀ dY, dP = dY Vᵀ, dS = P (dP − Σ P dP), dQ = dS K, dK = dSᵀ Q; and over all
   keys of a row, Σ P dP = Y · dY. */
static void backward(Room *room) {
    const Attention *p = room->p;
    int64_t K = p->size, b = room->b, g = room->g, rows = room->each * p->length;
    int adds = !p->band_count || p->bands[0].keys; /* else the first order has all keys, and its gradients are written */
    memset(room->begun, 0, rows);
    for (int64_t j = 0; adds && j < p->keys; j++) zero_row(p->to_k, b, g, j, K), zero_row(p->to_v, b, g, j, K);
    for (int64_t n = 0; n < p->band_count; adds = 1) {
        const Band *band = p->bands + n;
        n += walk_heads(room, n, backward_group);
        prepare(room, band, band->key_count); /* keys that nobody sees */
        put_rows(room->to_k, band->keys, band->key_count, K, head(p->to_k, b, g), p->to_k.l, adds);
        put_rows(room->to_v, band->keys, band->key_count, K, head(p->to_v, b, g), p->to_v.l, adds);
    }
    for (int64_t n = 0; n < rows; n++)
        if (!room->begun[n]) zero_row(p->to_q, b, g * room->each + n / p->length, n % p->length, K);
}

INLINE void share(const Attention *p, int backward, void (*run)(Room *)) {
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t n = 0; n < p->batch * p->groups; n++) {
        Room room = {0};
        lay_out(p, backward, p->room + THREAD * p->private, &room);
        room.b = n / p->groups, room.g = n % p->groups;
        run(&room);
    }
}

/* Sets `private`. */
void sublayer_attend_room(Attention *p, int backward) {
    Room room = {0};
    p->private = lay_out(p, backward, 0, &room);
}

void sublayer_attend(const Attention *p) {
    share(p, 0, forward);
}

void sublayer_attend_backward(const Attention *p) {
    share(p, 1, backward);
}
