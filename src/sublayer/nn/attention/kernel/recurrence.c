/* A recurrence without softmax and its gradient, by chunks:

       S_t = a_t S_(t−1) + k_t v_tᵀ,  z_t = a_t z_(t−1) + k_t,  y_t = S_tᵀ q_t, divided by z_t · q_t if there are z

   Its twin is recurrence.py's `chunkwise`. Queries and keys are formed in their chunk (features.h), and by the delta rule
   values too (delta.h). Within a chunk queries meet keys directly; what stands before it is in S and z. A is the sum of
   log a within the chunk: key j has faded by e^(A_i − A_j) for query i, the sums before by e^(A_i). All of a chunk stays in
   the processor's caches, and little is stored for backward: it goes through the text once backwards, with the gradient of
   S, for the gradients of keys and values, and once forwards, with S, for those of queries.

   B batch, H query heads on G key heads, L tokens, F features of a query or key, K of a value, both multiples of WIDE.
   native_recurrence.py declares the same structs. */

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

#include "product.h"
#include "products.h"

#include "features.h"

#define CHUNK 64
#define HIGH 72 /* rows of a chunk's arrays: `product` goes on to a multiple of TALL */

typedef struct {
    int64_t batch, heads, groups, length, features, size, threads;
    Map map;
    Heads q, k, v;
    Heads fade, gain, strength, least; /* (B, G, L) as in Terms; at is NULL: none */
    double eps;                        /* y is divided by its root mean square, of y² + eps; 0: it is not */
    const float *s, *z, *top;          /* (B, G, F, K), (B, G, F), (B, G) before; NULL: no weights, no exponents */
    float *s_after, *z_after;          /* after */
    Heads tops;                        /* (B, G, L) largest exponent so far */
    Heads errors;                      /* (B, G, L, K) of the delta rule; at is NULL in forward: not stored */
    Heads y, divisor;                  /* divisor (B, H, L): z_t · q_t, or the root mean square */
    Heads to_y;                        /* gradients, as all that follows */
    const float *to_s_after, *to_z_after; /* NULL: zero */
    Heads to_q, to_k, to_v, to_strength, to_least;
    Heads asked, gave;                 /* (B, G, L) Σ_h q · dq, and k · dk or, by the delta rule, v · dv; NULL: not wanted */
    float *to_w, *to_s, *to_z;         /* to_w (B, G, drawn, size) */
    float *room;
    int64_t private; /* floats of `room` for each thread */
} Recurrence;

/* What one thread holds of a chunk and of the sums. */
typedef struct {
    float *w, *w_panels, *to_w;
    float *q_given, *q, *k_given, *k, *k_panels, *v, *v_panels, *y, *scores, *to_scores, *between, *s, *s_panels, *z;
    float *to_q, *to_k, *to_v, *to_given;
    float q_lengths[HIGH], k_lengths[HIGH];
    float into[HIGH], left[HIGH];  /* e^(A_i), and e^(A_end − A_j) times the key's gain */
    float strength[HIGH], to_weight[HIGH];
    float end, top;                /* e^(A_end); the largest exponent so far */
    int64_t R;                     /* tokens of the chunk */
} Chunk;

/* Where everything lies in a thread's room, which may be NULL; how many floats that takes. */
static int64_t lay_out(const Recurrence *p, float *room, Chunk *c) {
    int64_t F = p->features, K = p->size, X = p->map.size, D = p->map.drawn, all = 0;
    float **arrays[] = {&c->w, &c->w_panels, &c->to_w, &c->q_given, &c->q, &c->k_given, &c->k, &c->k_panels, &c->v, &c->v_panels, &c->y,
                        &c->scores, &c->to_scores, &c->between, &c->s, &c->s_panels, &c->z, &c->to_q, &c->to_k, &c->to_v, &c->to_given};
    int64_t sizes[] = {D * X, D * X, (D + TALL) * X, HIGH * X, HIGH * F, HIGH * X, HIGH * F, HIGH * F, HIGH * K, HIGH * K, HIGH * K,
                       HIGH * CHUNK, HIGH * CHUNK, CHUNK * CHUNK, (F + TALL) * K, F * K, F, HIGH * F, HIGH * F, HIGH * K, HIGH * X};
    for (int n = 0; n < (int)(sizeof(sizes) / sizeof(*sizes)); n++) {
        *arrays[n] = room ? room + all : 0;
        all += sizes[n] + WIDE;
    }
    return all;
}

int64_t sublayer_recur_room(const Recurrence *p) {
    Chunk c;
    return lay_out(p, 0, &c);
}

/* The sums that one key head begins with, zero where there are none, and its vectors. */
static Chunk begin(const Recurrence *p, int64_t b, int64_t g, const float *s, const float *z, float *room) {
    int64_t F = p->features, K = p->size, X = p->map.size, D = p->map.drawn, at = b * p->groups + g;
    Chunk c;
    lay_out(p, room, &c);
    memset(c.s, 0, (F + TALL) * K * sizeof(float));
    memset(c.z, 0, F * sizeof(float));
    if (s) memcpy(c.s, s + at * F * K, F * K * sizeof(float));
    if (z) memcpy(c.z, z + at * F, F * sizeof(float));
    c.top = p->top ? p->top[at] : 0;
    if (D) {
        memcpy(c.w, p->map.w + g * p->map.apart, D * X * sizeof(float));
        transpose(c.w, X, 0, D, D, X, c.w_panels);
        memset(c.to_w, 0, (D + TALL) * X * sizeof(float));
    }
    return c;
}

INLINE float *number(Heads x, int64_t b, int64_t g, int64_t t) {
    return head(x, b, g) + t * x.l;
}

static void read_rows(Heads from, int64_t b, int64_t h, int64_t first, int64_t W, int64_t R, float *to) {
    gather(number(from, b, h, first), from.l, 0, R, HIGH, W, 1, to);
}

static void write_rows(const float *from, int64_t R, int64_t W, Heads to, int64_t b, int64_t h, int64_t first) {
    for (int64_t i = 0; i < R; i++) memcpy(number(to, b, h, first + i), from + i * W, W * sizeof(float));
}

static void scale_rows(float *x, int64_t W, const float *by) {
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t e = 0; e < W; e++) x[i * W + e] *= by[i];
}

INLINE int hidden(const Recurrence *p, int64_t b, int64_t g, int64_t t) {
    return p->gain.at && *number(p->gain, b, g, t) == -INFINITY;
}

/* How keys fade between the tokens of a chunk: between[i, j] is 0 where j > i. What a key's gain makes of it is in both
   factors by which it is met. */
static void fades(const Recurrence *p, int64_t b, int64_t g, int64_t first, Chunk *c) {
    float sums[CHUNK], gains[CHUNK], sum = 0;
    int faded = p->fade.at || p->top;
    for (int64_t i = 0; i < CHUNK; i++) {
        int64_t t = first + i;
        if (p->fade.at && i < c->R) sum += *number(p->fade, b, g, t);
        if (p->top && i < c->R) {
            float before = t ? *number(p->tops, b, g, t - 1) : p->top[b * p->groups + g];
            sum += before == -INFINITY ? 0 : before - *number(p->tops, b, g, t); /* no key yet: nothing to fade */
        }
        sums[i] = sum;
        gains[i] = p->gain.at && i < c->R ? hidden(p, b, g, t) ? 0 : exponential(*number(p->gain, b, g, t)) : 1;
    }
    c->end = faded ? exponential(sum) : 1;
    for (int64_t i = 0; i < CHUNK; i++) {
        float *row = c->between + i * CHUNK;
        c->into[i] = faded ? exponential(sums[i]) : 1;
        c->left[i] = gains[i] * (faded ? exponential(sum - sums[i]) : 1);
        for (int64_t j = 0; j <= i; j++) row[j] = gains[j] * (faded ? exponential(sums[i] - sums[j]) : 1);
        memset(row + i + 1, 0, (CHUNK - 1 - i) * sizeof(float));
    }
}

/* Features of the chunk's keys, as rows and as panels, and how they fade. `ahead`: the first to go through the text finds
   the largest exponent so far; the others read it. */
static void read_keys(const Recurrence *p, int64_t b, int64_t g, int64_t first, int ahead, Chunk *c) {
    int64_t F = p->features;
    c->R = MIN(CHUNK, p->length - first);
    read_rows(p->k, b, g, first, p->map.size, c->R, c->k_given);
    features(&p->map, c->w_panels, c->k_given, c->R, F, c->k_lengths, c->k);
    for (int64_t i = 0; i < c->R; i++) {
        float *row = c->k + i * F;
        int shown = !hidden(p, b, g, first + i);
        if (p->top) {
            if (ahead && shown) c->top = MAX(c->top, largest(row, F));
            if (ahead) *number(p->tops, b, g, first + i) = c->top;
            raise_row(row, F, *number(p->tops, b, g, first + i));
        }
        if (!shown) memset(row, 0, F * sizeof(float)); /* what it holds may be too large to be multiplied by zero */
    }
    memset(c->k + c->R * F, 0, (HIGH - c->R) * F * sizeof(float));
    transpose(c->k, F, 0, c->R, CHUNK, F, c->k_panels);
    fades(p, b, g, first, c);
}

static void read_queries(const Recurrence *p, int64_t b, int64_t h, int64_t first, Chunk *c) {
    int64_t F = p->features;
    read_rows(p->q, b, h, first, p->map.size, c->R, c->q_given);
    features(&p->map, c->w_panels, c->q_given, c->R, F, c->q_lengths, c->q);
    for (int64_t i = 0; p->top && i < c->R; i++) raise_row(c->q + i * F, F, largest(c->q + i * F, F));
    memset(c->q + c->R * F, 0, (HIGH - c->R) * F * sizeof(float));
}

/* Scores (R, CHUNK), faded, of queries on the keys of their chunk. */
static void meet(const Recurrence *p, const Chunk *c, const float *q, float *scores) {
    int64_t F = p->features;
    rows_by_panels(UP(CHUNK, TALL), CHUNK, F, q, F, c->k_panels, scores, CHUNK, 0);
    for (int64_t n = 0; n < CHUNK * CHUNK; n++) scores[n] *= c->between[n];
}

#include "delta.h"

/* Values of the chunk, and their panels: what is added to the sums. Backward reads what the delta rule found in forward. */
static void read_values(const Recurrence *p, int64_t b, int64_t g, int64_t first, int ahead, Chunk *c) {
    int64_t K = p->size;
    if (p->strength.at) read_strengths(p, b, g, first, c);
    read_rows(p->strength.at && !ahead ? p->errors : p->v, b, g, first, K, c->R, c->v);
    if (p->strength.at && ahead) find_errors(p, b, g, first, c);
    if (p->strength.at) scale_rows(c->v, K, c->strength);
    if (!ahead) transpose(c->v, K, 0, c->R, CHUNK, K, c->v_panels);
}

/* S (F, K) = end · S + Σ x_tᵀ y_t of the chunk, and z alike, where each x is weighed by `weights` (NULL: 1). */
static void add_chunk(const Recurrence *p, const Chunk *c, const float *x, const float *y, const float *weights, float *s, float *z) {
    int64_t F = p->features, K = p->size;
    if (c->end != 1) {
        for (int64_t n = 0; n < F * K; n++) s[n] *= c->end;
        for (int64_t f = 0; f < F; f++) z[f] *= c->end;
    }
    columns_by_rows(UP(F, TALL), K, CHUNK, x, F, y, s, 1);
    for (int64_t t = 0; p->z && t < c->R; t++)
        for (int64_t f = 0; f < F; f++) z[f] += (weights ? weights[t] : 1) * x[t * F + f];
}

INLINE float least_of(const Recurrence *p, int64_t b, int64_t g, int64_t t) {
    return p->least.at ? MAX(*number(p->least, b, g, t), FLT_MIN) : FLT_MIN;
}

/* The chunk's outputs from S_tᵀ q_t in c->y, where c->q has faded. */
static void divide(const Recurrence *p, int64_t b, int64_t g, int64_t h, int64_t first, const Chunk *c) {
    int64_t F = p->features, K = p->size;
    for (int64_t i = 0; (p->z || p->eps) && i < c->R; i++) {
        float *y = c->y + i * K, *divisor = number(p->divisor, b, h, first + i);
        *divisor = p->z ? sum(c->scores + i * CHUNK, CHUNK) + dot(c->q + i * F, c->z, F) : sqrtf(dot(y, y, K) / K + p->eps);
        float by = 1 / MAX(*divisor, p->z ? least_of(p, b, g, first + i) : 0);
        for (int64_t k = 0; k < K; k++) y[k] *= by;
    }
}

/* From the gradient of outputs to those of S_tᵀ q_t, in c->y, and of z_t · q_t. */
static void divide_back(const Recurrence *p, int64_t b, int64_t g, int64_t h, int64_t first, Chunk *c) {
    int64_t K = p->size;
    read_rows(p->to_y, b, h, first, K, c->R, c->y);
    memset(c->to_weight, 0, sizeof(c->to_weight));
    for (int64_t i = 0; (p->z || p->eps) && i < c->R; i++) {
        float *to = c->y + i * K, divisor = *number(p->divisor, b, h, first + i);
        const float *y = number(p->y, b, h, first + i);
        float along = dot(to, y, K), by = 1 / MAX(divisor, p->z ? least_of(p, b, g, first + i) : 0);
        float turned = p->z ? 0 : along / K; /* y of a given root mean square moves only across itself */
        for (int64_t k = 0; k < K; k++) to[k] = by * (to[k] - turned * y[k]);
        if (p->z && divisor >= least_of(p, b, g, first + i)) c->to_weight[i] = -along * by;
    }
}

static void forward(const Recurrence *p, int64_t b, int64_t g, float *room) {
    int64_t F = p->features, K = p->size, each = p->heads / p->groups, at = b * p->groups + g;
    Chunk c = begin(p, b, g, p->s, p->z, room);
    for (int64_t first = 0; first < p->length; first += CHUNK) {
        read_keys(p, b, g, first, 1, &c);
        read_values(p, b, g, first, 1, &c);
        int64_t tall = UP(c.R, TALL);
        for (int64_t h = g * each; h < g * each + each; h++) {
            read_queries(p, b, h, first, &c);
            meet(p, &c, c.q, c.scores);
            rows_by_rows(tall, K, CHUNK, c.scores, CHUNK, c.v, c.y, 0);
            scale_rows(c.q, F, c.into);
            rows_by_rows(tall, K, F, c.q, F, c.s, c.y, 1);
            divide(p, b, g, h, first, &c);
            write_rows(c.y, c.R, K, p->y, b, h, first);
        }
        scale_rows(c.k, F, c.left);
        add_chunk(p, &c, c.k, c.v, 0, c.s, c.z);
    }
    memcpy(p->s_after + at * F * K, c.s, F * K * sizeof(float));
    if (p->z) memcpy(p->z_after + at * F, c.z, F * sizeof(float));
}

/* dscores_ij = (dy_i · v_j + dweight_i) faded. */
static void meet_back(const Recurrence *p, Chunk *c) {
    int64_t K = p->size;
    rows_by_panels(UP(CHUNK, TALL), CHUNK, K, c->y, K, c->v_panels, c->to_scores, CHUNK, 0);
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t j = 0; j < CHUNK; j++)
            c->to_scores[i * CHUNK + j] = (c->to_scores[i * CHUNK + j] + c->to_weight[i]) * c->between[i * CHUNK + j];
}

/* Adds the gradient of w that one pass found. */
static void end_back(const Recurrence *p, int64_t at, const Chunk *c) {
    int64_t W = p->map.drawn * p->map.size;
    for (int64_t n = 0; p->to_w && n < W; n++) p->to_w[at * W + n] += c->to_w[n];
}

/* dk_j = Σ_i dscores_ij q_i + e^(A_end − A_j) (dS v_j + dz),  dv_j = Σ_i scores_ij dy_i + e^(A_end − A_j) dSᵀ k_j */
static void keys_back(const Recurrence *p, int64_t b, int64_t g, float *room) {
    int64_t F = p->features, K = p->size, each = p->heads / p->groups, at = b * p->groups + g;
    Chunk c = begin(p, b, g, p->to_s_after, p->to_z_after, room);
    for (int64_t first = (p->length - 1) / CHUNK * CHUNK; first >= 0; first -= CHUNK) {
        read_keys(p, b, g, first, 0, &c);
        read_values(p, b, g, first, 0, &c);
        int64_t tall = UP(CHUNK, TALL);
        transpose(c.s, K, 0, F, F, K, c.s_panels);
        rows_by_panels(tall, F, K, c.v, K, c.s_panels, c.to_k, F, 0);
        for (int64_t j = 0; p->z && j < CHUNK; j++)
            for (int64_t f = 0; f < F; f++) c.to_k[j * F + f] += c.z[f];
        scale_rows(c.to_k, F, c.left);
        rows_by_rows(tall, K, F, c.k, F, c.s, c.to_v, 0);
        scale_rows(c.to_v, K, c.left);
        for (int64_t h = g * each; h < g * each + each; h++) {
            read_queries(p, b, h, first, &c);
            divide_back(p, b, g, h, first, &c);
            meet(p, &c, c.q, c.scores);
            meet_back(p, &c);
            columns_by_rows(tall, F, CHUNK, c.to_scores, CHUNK, c.q, c.to_k, 1);
            columns_by_rows(tall, K, CHUNK, c.scores, CHUNK, c.y, c.to_v, 1);
            scale_rows(c.q, F, c.into);
            add_chunk(p, &c, c.q, c.y, c.to_weight, c.s, c.z);
            c.end = 1; /* the sums fade once, and all heads add to them */
        }
        if (p->strength.at) errors_back(p, b, g, first, &c);
        write_rows(c.to_v, c.R, K, p->to_v, b, g, first);
        for (int64_t i = 0; p->gave.at && i < c.R; i++)
            *number(p->gave, b, g, first + i) = p->strength.at ? dot(number(p->v, b, g, first + i), c.to_v + i * K, K)
                                                               : dot(c.k + i * F, c.to_k + i * F, F);
        float *to = features_back(&p->map, c.w, c.k_given, c.k_lengths, c.k, c.R, F, c.to_k, c.to_given, p->to_w ? c.to_w : 0);
        write_rows(to, c.R, p->map.size, p->to_k, b, g, first);
    }
    memcpy(p->to_s + at * F * K, c.s, F * K * sizeof(float));
    if (p->z) memcpy(p->to_z + at * F, c.z, F * sizeof(float));
    end_back(p, at, &c);
}

/* dq_i = Σ_j dscores_ij k_j + e^(A_i) (S dy_i + dweight_i z) */
static void queries_back(const Recurrence *p, int64_t b, int64_t g, float *room) {
    int64_t F = p->features, K = p->size, each = p->heads / p->groups, at = b * p->groups + g;
    Chunk c = begin(p, b, g, p->s, p->z, room);
    for (int64_t first = 0; first < p->length; first += CHUNK) {
        read_keys(p, b, g, first, 0, &c);
        read_values(p, b, g, first, 0, &c);
        int64_t tall = UP(c.R, TALL);
        transpose(c.s, K, 0, F, F, K, c.s_panels);
        if (p->strength.at) sums_back(p, b, g, first, &c);
        for (int64_t h = g * each; h < g * each + each; h++) {
            read_queries(p, b, h, first, &c);
            divide_back(p, b, g, h, first, &c);
            meet_back(p, &c);
            rows_by_rows(tall, F, CHUNK, c.to_scores, CHUNK, c.k, c.to_q, 0);
            scale_rows(c.y, K, c.into);
            rows_by_panels(tall, F, K, c.y, K, c.s_panels, c.to_q, F, 1);
            for (int64_t i = 0; i < c.R; i++) {
                float *to = c.to_q + i * F;
                for (int64_t f = 0; p->z && f < F; f++) to[f] += c.into[i] * c.to_weight[i] * c.z[f];
                if (p->asked.at) *number(p->asked, b, g, first + i) += dot(c.q + i * F, to, F);
                if (p->to_least.at && *number(p->divisor, b, h, first + i) < least_of(p, b, g, first + i))
                    *number(p->to_least, b, g, first + i) -= dot(number(p->to_y, b, h, first + i), number(p->y, b, h, first + i), K) / least_of(p, b, g, first + i);
            }
            float *to = features_back(&p->map, c.w, c.q_given, c.q_lengths, c.q, c.R, F, c.to_q, c.to_given, p->to_w ? c.to_w : 0);
            write_rows(to, c.R, p->map.size, p->to_q, b, h, first);
        }
        scale_rows(c.k, F, c.left);
        add_chunk(p, &c, c.k, c.v, 0, c.s, c.z);
    }
    end_back(p, at, &c);
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
    share(p, keys_back); /* first: by the delta rule, dv is needed where S is */
    share(p, queries_back);
}
