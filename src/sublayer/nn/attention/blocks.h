/* A tile of queries on a block of keys, and the products between them.

   Within a tile neither lo nor hi falls from one query to the next. So the queries that see a given key stand side by side,
   and each product leaves out, but for a few at the edges, the pairs that are not seen. */

#define ROWS 64           /* queries of a tile at most */
#define HIGH UP(ROWS, TALL)
#define KEYS 640          /* keys of a block at most */
#define STRIDE (KEYS + 3 * WIDE)

/* Query n of a tile. */
INLINE int64_t query(const Band *band, int64_t tile, int64_t n) {
    return at(band->queries, band->tiles[tile] + n);
}

INLINE int64_t size_of(const Band *band, int64_t tile) {
    return band->tiles[tile + 1] - band->tiles[tile];
}

/* A tile of queries on one block of keys: `n` of them from `first` on. */
typedef struct {
    int64_t R, first, n;
    Sight rows[ROWS];
} Block;

/* Of a tile, what it sees of the keys [from, next). */
static void see(const Attention *p, const Band *band, int64_t b, int64_t h, int64_t tile, int64_t from, int64_t next, Block *out) {
    int64_t begin = band->tiles[tile];
    out->R = size_of(band, tile);
    out->first = from / WIDE * WIDE;
    out->n = UP(next - out->first, WIDE);
    for (int64_t r = 0; r < out->R; r++) {
        int64_t lo = MIN(MAX(band->lo[begin + r], from), next), hi = MIN(MAX(band->hi[begin + r], lo), next);
        out->rows[r] = (Sight){p, band, b, h, at(band->queries, begin + r), out->first, lo - out->first, hi - out->first};
    }
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

/* Zeros where a product reads a row's weights beside what it sees, or if it sees nothing: as far as the TALL rows around it
   see, and as far as a TALL of keys goes. */
INLINE void clear_row(const Block *block, int64_t r, int sees, float *x) {
    int64_t begin = r / TALL * TALL, last = MIN(begin + TALL, block->R) - 1;
    int64_t from = MAX(BEGIN(block->rows[begin].lo) - VECTOR, 0), to = UP(block->rows[last].hi, VECTOR) + VECTOR;
    clear_beside(x, from, sees ? block->rows[r].lo : to, sees ? block->rows[r].hi : to, to);
}
