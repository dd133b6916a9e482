/* What a pass of the loop reads and writes; form.py declares the same structs.

   B rows, T tokens, D width, H query heads on G key heads of size K, C keys at most, A sets of them, R streams of
   memory vectors, L layers that they are made of. Buffers of all tokens have time first, so that each token is one piece of memory. */

#include "panels.h"

#include "attend.h"
#include "pointwise.h"
#include "slopes.h"

typedef struct {
    int64_t attends, gated, activation;
    int64_t keys, sees; /* which set an attention reads, and how many earlier tokens, -1 for all */
    int64_t fades;
    int64_t drops; /* dropout on weights: dropped ones are saved negated, so that one array holds softmax and mask */
    int64_t source; /* tokens of a source that it reads instead of the memory; 0 for none */
    const float *fade; /* (H, fades): added to scores by distance, the farthest first; or NULL */
    const float *source_k, *source_v; /* (B, G, source, K) */
    Norm before, after;
    Matrix enter, leave; /* in backward, both transposed */
    float *sum;          /* (T, B, D): what a norm after the sum reads */
    float *h;            /* (T, B, F): before the activation */
    float *q, *y;        /* (T, B, H·K) */
    float *weights;      /* (T, B, H, C) */
    const uint8_t *stay; /* 0 for dropped weights, (T, B, H, C), or activations, (T, B, F); or NULL */
    const uint8_t *stay_out; /* (T, B, D): the same for the output */
    /* Gradients of a block's tokens, from which those of weights are formed; then of all tokens, for those of keys. */
    float *to_out, *to_in, *to_sum, *to_stream;
    float *to_scores, *to_y;
} Sublayer;

typedef struct {
    int64_t rows, dim, tokens, heads, groups, size, memory, capacity, sets, streams, layers, sublayers;
    int64_t threads, by_rows;
    Sublayer *sublayer;
    const int64_t *ends;    /* (L) number of sublayers before each layer output */
    const int64_t *stream;  /* (A) */
    const float *compose;   /* (R, L) */
    Norm entry;
    Matrix *project;        /* (A) D → 2·G·K; in backward, transposed */
    Matrix near;            /* K → distances, the farthest first; in backward, transposed. weight may be NULL */
    const float *mask;      /* (T, B, C), or NULL */
    const float *source_mask; /* (B, source), or NULL */
    const float *cos, *sin; /* (T, rotations, K), or NULL */
    int64_t rotations;      /* rows of cos and sin: B, or 1 for all rows alike */
    float *x;               /* (sublayers + 1, T, B, D) */
    float *k, *v;           /* (A, B, G, C, K) */
    float *m;               /* (T, R, B, D) */
    const float *to_last;   /* (T, B, D) */
    float *to_first;        /* (T, B, D) */
    float *to_k, *to_v;     /* as k and v */
    float *to_kv, *to_m;    /* (block, A, B, 2·G·K) and (block, R, B, D) */
    float *wide, *made;     /* scratch of all threads: (B, F); and normed memory vectors, then keys and values */
    float *room;            /* scratch of each thread */
    int64_t private;        /* floats of `room` for each thread */
    int64_t vectors;        /* and how many of them come before the scratch of `multiply` */
} Loop;

/* A thread's share. Either each thread has rows of its own, and never waits for others; or all threads work on all rows,
   each on some of the features, and wait for each other between two products. */
typedef struct {
    int64_t first, rows;   /* those of the team */
    int64_t from, to;      /* rows whose whole-vector work (norms, copies) this thread does */
    int64_t begin, end;    /* (row, key head) pairs, counted over all rows, that it attends with */
    int64_t member, members;
    float *mine, *room;  /* scratch of this thread, and of its products */
} Team;

#define WAIT                       \
    if (team->members > 1) {       \
        _Pragma("omp barrier")     \
    }

INLINE Team joined(const Loop *l) {
    int64_t B = l->rows, G = l->groups, n = THREAD, N = THREADS;
    Team team = {.rows = B, .from = B * n / N, .to = B * (n + 1) / N, .member = n, .members = N};
    team.begin = B * G * n / N, team.end = B * G * (n + 1) / N;
    team.mine = l->room + n * l->private, team.room = team.mine + l->vectors;
    if (l->by_rows) {
        team.first = team.from, team.rows = team.to - team.from, team.member = 0, team.members = 1;
        team.begin = team.from * G, team.end = team.to * G;
    }
    return team;
}

/* This thread's share of N columns, in whole panels. */
INLINE void share(const Team *team, int64_t N, int64_t *from, int64_t *to) {
    int64_t panels = (N + WIDE - 1) / WIDE;
    *from = MIN(N, panels * team->member / team->members * WIDE);
    *to = MIN(N, panels * (team->member + 1) / team->members * WIDE);
}

INLINE float *at(const Loop *l, float *x, int64_t t, int64_t wide) { return x + t * l->rows * wide; }

/* Dropout: x[n] = 0 where stay[n] is 0. */
INLINE void drop(const uint8_t *stay, float *x, int64_t N) {
    for (int64_t n = 0; n < N; n++) x[n] = stay[n] ? x[n] : 0;
}

/* Keys that an attention sees from token t: the first, and how many. */
INLINE int64_t seen(const Loop *l, const Sublayer *s, int64_t t, int64_t *M) {
    int64_t end = s->source ? s->source : l->memory + t, start = s->sees < 0 || s->source ? 0 : MAX(0, end - s->sees);
    *M = end - start;
    return start;
}

/* Number of keys a buffer of its has room for, and the offset of those of a (row, key head) pair. */
INLINE int64_t keys(const Loop *l, const Sublayer *s) { return s->source ? s->source : l->capacity; }
INLINE int64_t keys_of(const Loop *l, const Sublayer *s, int64_t pair) {
    return (s->source ? pair : s->keys * l->rows * l->groups + pair) * keys(l, s) * l->size;
}

/* Mask added to the scores of a row; or NULL. */
INLINE const float *mask_of(const Loop *l, const Sublayer *s, int64_t t, int64_t b) {
    const float *mask = s->source ? l->source_mask : l->mask;
    return mask ? mask + (s->source ? b : t * l->rows + b) * keys(l, s) : NULL;
}

INLINE void rotate_at(const Loop *l, int64_t t, int64_t b, float *x, int back) {
    int64_t where = (t * l->rotations + (l->rotations > 1 ? b : 0)) * l->size;
    if (l->cos) rotate(x, l->cos + where, l->sin + where, l->size, back);
}

static void pack_all(const Loop *l) {
    for (int64_t n = 0; n < l->sublayers; n++) pack(&l->sublayer[n].enter), pack(&l->sublayer[n].leave);
    for (int64_t a = 0; a < l->sets; a++) pack(l->project + a);
    if (l->near.weight) pack(&l->near);
}
