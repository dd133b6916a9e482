/* What queries see, and what decides the weights besides queries and keys: a bias by distance, padding, dropout. */

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

static void add_bias(const Sight *s, const float *to_score) {
    float *to = head(s->p->to_bias, s->b, s->h) + s->i * s->p->to_bias.l + s->p->zero - s->i;
    for (int64_t j = s->lo; j < s->hi; j++) to[at(s->band->keys, s->first + j)] += to_score[j];
}

/* 32 bits that look random: MurmurHash3's last step. dropout.py computes the same. */
INLINE uint32_t mixed(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
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
