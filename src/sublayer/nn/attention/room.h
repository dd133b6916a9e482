/* What one thread works on, and in. */

#define TILES 2           /* tiles that share their blocks of keys */
#define SPARE 64          /* rows after the last key: a block begins and ends at a multiple of WIDE, its rows of TALL */

/* N is the most keys of a band, and SPARE more. */
typedef struct {
    const Attention *p;
    int64_t b, g, h, each;                /* row, key head, query head; query heads of a key head */
    int backward;
    float *k, *v, *q, *y, *score;         /* N, N, TILES · HIGH twice, HIGH · STRIDE */
    float *rows, *to_k, *to_v;            /* of backward, as all that follows: keys in rows, gradients, N each */
    float *to_q, *to_score;
    int64_t ready;                        /* so many keys are prepared */
    int64_t *done;                        /* of each band, tiles that had their turn */
    uint8_t *begun;                       /* of each query of `each` heads whether its gradient has been begun */
    const Band *leads;                    /* the band whose queries are fetched ahead */
} Room;

/* The floats of a room; from `at` on, if that is not NULL. */
static int64_t lay_out(const Attention *p, int backward, float *at, Room *room) {
    int64_t K = p->size, N = (UP(p->most, WIDE) + SPARE) * K, tiles = TILES * HIGH * K, each = p->heads / p->groups, taken = 0;
    float *done, *begun, **parts[] = {&done, &room->k, &room->v, &room->q, &room->y, &room->score, &begun, &room->rows, &room->to_k, &room->to_v, &room->to_q, &room->to_score};
    int64_t sizes[] = {2 * p->band_count, N, N, tiles, tiles, HIGH * STRIDE, each * p->length / 4 + 1, N, N, N, tiles, HIGH * STRIDE};
    for (int n = 0; n < (backward ? 12 : 6); n++) {
        *parts[n] = at ? at + taken : 0;
        taken += UP(sizes[n], WIDE);
    }
    room->p = p, room->each = each, room->backward = backward;
    room->done = (int64_t *)done, room->begun = backward ? (uint8_t *)begun : 0;
    return taken;
}

/* Keys and values of a band's order, up to `end` and as far beyond as products read, in the forms in which they do. As
   late as they are wanted: then they are still in the caches. */
static void prepare(Room *room, const Band *band, int64_t end) {
    const Attention *p = room->p;
    int64_t K = p->size, from = room->ready, to = MIN(UP(end, WIDE), UP(p->most, WIDE)) + SPARE;
    if (to <= from) return;
    int64_t rows = to - from, R = MIN(MAX(band->key_count - from, 0), rows), skipped = band->keys ? 0 : from;
    const int32_t *order = band->keys ? band->keys + from : 0;
    const float *k = head(p->k, room->b, room->g) + skipped * p->k.l, *v = head(p->v, room->b, room->g) + skipped * p->v.l;
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

INLINE void fetch(Heads x, int64_t b, int64_t h, int64_t i, int64_t K) {
    const float *row = head(x, b, h) + i * x.l;
    for (int64_t k = 0; k < K; k += 64 / sizeof(float)) __builtin_prefetch(row + k, 0, 2);
}

/* Query r of a tile that comes later, and the last key that it sees, on their way into the caches while products are
   formed: rows of one head lie too far apart for the processor to foresee them. */
INLINE void fetch_ahead(const Room *room, const Band *band, int64_t tile, int64_t r) {
    const Attention *p = room->p;
    if (band != room->leads || tile >= band->tile_count || r >= size_of(band, tile)) return;
    int64_t i = query(band, tile, r), key = band->hi[band->tiles[tile] + r] + SPARE - 1;
    fetch(p->q, room->b, room->h, i, p->size);
    fetch(p->y, room->b, room->h, i, p->size);
    if (room->backward) {
        fetch(p->to_y, room->b, room->h, i, p->size);
        fetch(p->to_q, room->b, room->h, i, p->size);
    }
    if (key < room->ready || key >= band->key_count) return;
    fetch(p->k, room->b, room->g, at(band->keys, key), p->size);
    fetch(p->v, room->b, room->g, at(band->keys, key), p->size);
}

/* Some tiles that go through the blocks of keys together, so that each block is read into the caches once for all: the
   first key that any of their queries sees, and the end of the last. */
typedef struct {
    int64_t first, count, from, end;
    int64_t froms[TILES], ends[TILES];
} Group;

static Group grouped(const Band *band, int64_t tile) {
    Group group = {tile, MIN(TILES, band->tile_count - tile), INT64_MAX, 0};
    for (int64_t t = 0; t < group.count; t++) {
        int64_t from = INT64_MAX, end = 0;
        for (int64_t n = band->tiles[tile + t]; n < band->tiles[tile + t + 1]; n++)
            if (band->lo[n] < band->hi[n]) from = MIN(from, band->lo[n]), end = MAX(end, band->hi[n]);
        group.froms[t] = from, group.ends[t] = end;
        group.from = MIN(group.from, from / WIDE * WIDE);
        group.end = MAX(group.end, end);
    }
    return group;
}

/* to (TILES · HIGH, K): the rows of a group's queries, scaled; zeros up to a multiple of TALL. */
static void gather_tiles(const Room *room, Heads from, const Band *band, const Group *group, float scale, float *to) {
    int64_t K = room->p->size;
    for (int64_t t = 0; t < group->count; t++, to += HIGH * K) {
        int64_t tile = group->first + t, R = size_of(band, tile);
        for (int64_t r = 0; r < R; r++)
            gather(head(from, room->b, room->h) + query(band, tile, r) * from.l, 0, 0, 1, 1, K, scale, to + r * K);
        memset(to + R * K, 0, (UP(R, TALL) - R) * K * sizeof(float));
    }
}
