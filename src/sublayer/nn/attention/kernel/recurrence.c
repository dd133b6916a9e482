/* A recurrence without softmax and its gradient, by chunks:

       S_t = a_t S_(t−1) + k_t v_tᵀ,  z_t = a_t z_(t−1) + k_t,  y_t = S_tᵀ q_t,  weight_t = z_t · q_t

   Its twin is recurrence.py's `chunkwise`. Within a chunk queries meet keys directly; what stands before it is in S and z.
   A is the sum of log a within the chunk: key j has faded by e^(A_i − A_j) for query i, the sums before by e^(A_i). All
   of a chunk stays in the processor's caches, and nothing is stored for backward: it goes through the text once forwards,
   with S, for the gradient of queries, and once backwards, with the gradient of S, for those of keys and values.

   B batch, H query heads on G key heads, L tokens, F features of a query or key, K of a value, both multiples of WIDE.
   native_recurrence.py declares the same struct. */

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

#include "product.h"

#define CHUNK 64
#define HIGH 72 /* rows of a chunk's arrays: `product` goes on to a multiple of TALL */

typedef struct {
    int64_t batch, heads, groups, length, features, size, threads;
    Heads q, k, v;
    Heads fade;                /* (B, G, L) log a; at is NULL: nothing fades */
    const float *s, *z;        /* (B, G, F, K), (B, G, F) before; z is NULL: no weights */
    float *s_after, *z_after;  /* after */
    Heads y, weight;
    Heads to_y, to_weight;     /* gradients, as all that follows */
    const float *to_s_after, *to_z_after; /* NULL: zero */
    Heads to_q, to_k, to_v;
    float *to_s, *to_z;
    float *room;
    int64_t private; /* floats of `room` for each thread */
} Recurrence;

/* What one thread holds of a chunk and of the sums. */
typedef struct {
    float *q, *k, *k_panels, *v, *v_panels, *y, *out, *scores, *to_scores, *between, *s, *s_panels, *z, *to_k, *to_v;
    float into[HIGH], left[HIGH]; /* e^(A_i) and e^(A_end − A_j) */
    float end;                    /* e^(A_end) */
    int64_t R;                    /* tokens of the chunk */
} Chunk;

static Chunk laid_out(const Recurrence *p, float *room) {
    int64_t F = p->features, K = p->size, wide = UP(MAX(F, K), WIDE);
    Chunk c;
    float **arrays[] = {&c.q, &c.k, &c.k_panels, &c.to_k, &c.v, &c.v_panels, &c.y, &c.to_v, &c.out, &c.scores, &c.to_scores, &c.between, &c.s, &c.s_panels, &c.z};
    int64_t sizes[] = {HIGH * F, HIGH * F, HIGH * F, HIGH * F, HIGH * K, HIGH * K, HIGH * K, HIGH * K, HIGH * wide, HIGH * CHUNK, HIGH * CHUNK, CHUNK * CHUNK, (F + TALL) * K, F * K, F};
    for (int n = 0; n < 15; n++) {
        *arrays[n] = room;
        room += sizes[n] + WIDE;
    }
    return c;
}

/* How keys fade between the tokens of a chunk: between[i, j] is 0 where j > i. */
static void fades(const Recurrence *p, int64_t b, int64_t g, int64_t first, Chunk *c) {
    float sums[CHUNK], sum = 0;
    for (int64_t i = 0; i < CHUNK; i++) {
        if (p->fade.at && i < c->R) sum += head(p->fade, b, g)[(first + i) * p->fade.l];
        sums[i] = sum;
    }
    c->end = p->fade.at ? exponential(sum) : 1;
    for (int64_t i = 0; i < CHUNK; i++) {
        c->into[i] = p->fade.at ? exponential(sums[i]) : 1;
        c->left[i] = p->fade.at ? exponential(sum - sums[i]) : 1;
        float *row = c->between + i * CHUNK;
        for (int64_t j = 0; j <= i; j++) row[j] = p->fade.at ? exponential(sums[i] - sums[j]) : 1;
        memset(row + i + 1, 0, (CHUNK - 1 - i) * sizeof(float));
    }
}

/* Keys and values of a chunk, as rows and as panels. */
static void read_keys(const Recurrence *p, int64_t b, int64_t g, int64_t first, Chunk *c) {
    const float *k = head(p->k, b, g) + first * p->k.l, *v = head(p->v, b, g) + first * p->v.l;
    c->R = MIN(CHUNK, p->length - first);
    gather(k, p->k.l, 0, c->R, CHUNK, p->features, 1, c->k);
    gather(v, p->v.l, 0, c->R, CHUNK, p->size, 1, c->v);
    transpose(k, p->k.l, 0, c->R, CHUNK, p->features, c->k_panels);
    transpose(v, p->v.l, 0, c->R, CHUNK, p->size, c->v_panels);
    fades(p, b, g, first, c);
}

static void read_queries(Heads from, int64_t b, int64_t h, int64_t first, int64_t W, const Chunk *c, float *to) {
    gather(head(from, b, h) + first * from.l, from.l, 0, c->R, HIGH, W, 1, to);
}

static void scale_rows(float *x, int64_t W, const float *by) {
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t e = 0; e < W; e++) x[i * W + e] *= by[i];
}

static void write_rows(const float *from, int64_t R, int64_t W, Heads to, int64_t b, int64_t h, int64_t first) {
    for (int64_t i = 0; i < R; i++) memcpy(head(to, b, h) + (first + i) * to.l, from + i * W, W * sizeof(float));
}

/* S (F, K) = end · S + Σ x_tᵀ y_t of the chunk, and z alike, where each x is weighed by `weights` (NULL: 1). */
static void add_chunk(const Recurrence *p, const Chunk *c, const float *x, const float *y, const float *weights, float *s, float *z) {
    int64_t F = p->features, K = p->size;
    if (c->end != 1) {
        for (int64_t n = 0; n < F * K; n++) s[n] *= c->end;
        for (int64_t f = 0; f < F; f++) z[f] *= c->end;
    }
    product(UP(F, TALL), K, CHUNK, x, 1, F, y, WIDE, K, s, K, 1);
    for (int64_t t = 0; t < c->R; t++)
        for (int64_t f = 0; f < F; f++) z[f] += (weights ? weights[t] : 1) * x[t * F + f];
}

/* Scores (R, CHUNK), faded, of queries on the keys of their chunk. */
static void meet(const Recurrence *p, const Chunk *c, float *scores) {
    int64_t F = p->features;
    product(UP(CHUNK, TALL), CHUNK, F, c->q, F, 1, c->k_panels, F * WIDE, WIDE, scores, CHUNK, 0);
    for (int64_t n = 0; n < CHUNK * CHUNK; n++) scores[n] *= c->between[n];
}

/* Their gradient: dscores_ij = (dy_i · v_j + dweight_i) faded. */
static void meet_back(const Recurrence *p, const Chunk *c, const float *to_weight, float *to_scores) {
    int64_t K = p->size;
    product(UP(CHUNK, TALL), CHUNK, K, c->y, K, 1, c->v_panels, K * WIDE, WIDE, to_scores, CHUNK, 0);
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t j = 0; j < CHUNK; j++) to_scores[i * CHUNK + j] = (to_scores[i * CHUNK + j] + to_weight[i]) * c->between[i * CHUNK + j];
}

static void start(const Recurrence *p, const float *s, const float *z, int64_t at, float *to_s, float *to_z) {
    int64_t F = p->features, K = p->size;
    if (s)
        memcpy(to_s, s + at * F * K, F * K * sizeof(float));
    else
        memset(to_s, 0, F * K * sizeof(float));
    memset(to_s + F * K, 0, TALL * K * sizeof(float));
    if (z)
        memcpy(to_z, z + at * F, F * sizeof(float));
    else
        memset(to_z, 0, F * sizeof(float));
}

static void forward(const Recurrence *p, int64_t b, int64_t g, float *room) {
    int64_t F = p->features, K = p->size, each = p->heads / p->groups, at = b * p->groups + g;
    Chunk c = laid_out(p, room);
    start(p, p->s, p->z, at, c.s, c.z);
    for (int64_t first = 0; first < p->length; first += CHUNK) {
        read_keys(p, b, g, first, &c);
        int64_t tall = UP(c.R, TALL);
        for (int64_t h = g * each; h < g * each + each; h++) {
            read_queries(p->q, b, h, first, F, &c, c.q);
            meet(p, &c, c.scores);
            product(tall, K, CHUNK, c.scores, CHUNK, 1, c.v, WIDE, K, c.y, K, 0);
            scale_rows(c.q, F, c.into);
            product(tall, K, F, c.q, F, 1, c.s, WIDE, K, c.y, K, 1);
            write_rows(c.y, c.R, K, p->y, b, h, first);
            for (int64_t i = 0; p->z && i < c.R; i++)
                head(p->weight, b, h)[(first + i) * p->weight.l] = sum(c.scores + i * CHUNK, CHUNK) + dot(c.q + i * F, c.z, F);
        }
        scale_rows(c.k, F, c.left);
        add_chunk(p, &c, c.k, c.v, 0, c.s, c.z);
    }
    memcpy(p->s_after + at * F * K, c.s, F * K * sizeof(float));
    if (p->z) memcpy(p->z_after + at * F, c.z, F * sizeof(float));
}

static void weights_back(const Recurrence *p, int64_t b, int64_t h, int64_t first, const Chunk *c, float *to_weight) {
    for (int64_t i = 0; i < CHUNK; i++)
        to_weight[i] = p->z && i < c->R ? head(p->to_weight, b, h)[(first + i) * p->to_weight.l] : 0;
}

/* dq_i = Σ_j dscores_ij k_j + e^(A_i) (S dy_i + dweight_i z) */
static void queries_back(const Recurrence *p, int64_t b, int64_t g, float *room) {
    int64_t F = p->features, K = p->size, each = p->heads / p->groups, at = b * p->groups + g;
    float to_weight[CHUNK];
    Chunk c = laid_out(p, room);
    start(p, p->s, p->z, at, c.s, c.z);
    for (int64_t first = 0; first < p->length; first += CHUNK) {
        read_keys(p, b, g, first, &c);
        int64_t tall = UP(c.R, TALL);
        transpose(c.s, K, 0, F, F, K, c.s_panels);
        for (int64_t h = g * each; h < g * each + each; h++) {
            read_queries(p->to_y, b, h, first, K, &c, c.y);
            weights_back(p, b, h, first, &c, to_weight);
            meet_back(p, &c, to_weight, c.to_scores);
            product(tall, F, CHUNK, c.to_scores, CHUNK, 1, c.k, WIDE, F, c.out, F, 0);
            scale_rows(c.y, K, c.into);
            product(tall, F, K, c.y, K, 1, c.s_panels, K * WIDE, WIDE, c.out, F, 1);
            for (int64_t i = 0; p->z && i < c.R; i++)
                for (int64_t f = 0; f < F; f++) c.out[i * F + f] += c.into[i] * to_weight[i] * c.z[f];
            write_rows(c.out, c.R, F, p->to_q, b, h, first);
        }
        scale_rows(c.k, F, c.left);
        add_chunk(p, &c, c.k, c.v, 0, c.s, c.z);
    }
}

/* dk_j = Σ_i dscores_ij q_i + e^(A_end − A_j) (dS v_j + dz),  dv_j = Σ_i scores_ij dy_i + e^(A_end − A_j) dSᵀ k_j */
static void keys_back(const Recurrence *p, int64_t b, int64_t g, float *room) {
    int64_t F = p->features, K = p->size, each = p->heads / p->groups, at = b * p->groups + g;
    float to_weight[CHUNK];
    Chunk c = laid_out(p, room);
    start(p, p->to_s_after, p->to_z_after, at, c.s, c.z);
    for (int64_t first = (p->length - 1) / CHUNK * CHUNK; first >= 0; first -= CHUNK) {
        read_keys(p, b, g, first, &c);
        int64_t tall = UP(CHUNK, TALL);
        transpose(c.s, K, 0, F, F, K, c.s_panels);
        scale_rows(c.v, K, c.left);
        product(tall, F, K, c.v, K, 1, c.s_panels, K * WIDE, WIDE, c.to_k, F, 0);
        for (int64_t j = 0; j < CHUNK; j++)
            for (int64_t f = 0; f < F; f++) c.to_k[j * F + f] += c.left[j] * c.z[f];
        scale_rows(c.k, F, c.left);
        product(tall, K, F, c.k, F, 1, c.s, WIDE, K, c.to_v, K, 0);
        for (int64_t h = g * each; h < g * each + each; h++) {
            read_queries(p->q, b, h, first, F, &c, c.q);
            read_queries(p->to_y, b, h, first, K, &c, c.y);
            weights_back(p, b, h, first, &c, to_weight);
            meet(p, &c, c.scores);
            meet_back(p, &c, to_weight, c.to_scores);
            product(tall, F, CHUNK, c.to_scores, 1, CHUNK, c.q, WIDE, F, c.to_k, F, 1);
            product(tall, K, CHUNK, c.scores, 1, CHUNK, c.y, WIDE, K, c.to_v, K, 1);
            scale_rows(c.q, F, c.into);
            add_chunk(p, &c, c.q, c.y, to_weight, c.s, c.z);
            c.end = 1; /* the sums fade once, and all heads add to them */
        }
        write_rows(c.to_k, c.R, F, p->to_k, b, g, first);
        write_rows(c.to_v, c.R, K, p->to_v, b, g, first);
    }
    memcpy(p->to_s + at * F * K, c.s, F * K * sizeof(float));
    if (p->z) memcpy(p->to_z + at * F, c.z, F * sizeof(float));
}

INLINE void share(const Recurrence *p, void (*run)(const Recurrence *, int64_t, int64_t, float *)) {
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int64_t n = 0; n < p->batch * p->groups; n++)
        run(p, n / p->groups, n % p->groups, p->room + THREAD * p->private);
}

void sublayer_recur(const Recurrence *p) {
    share(p, forward);
}

void sublayer_recur_backward(const Recurrence *p) {
    share(p, queries_back);
    share(p, keys_back);
}
