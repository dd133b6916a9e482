/* What a pass of the loop reads and writes; form.py declares the same.

   B rows, T places, D width, H query heads on G key heads of size K, C keys at most, A sets of them, R streams of
   memory vectors, L layers that they are made of. Buffers of all places have time first. */

#include "panels.h"

#include "attend.h"
#include "pointwise.h"
#include "slopes.h"

typedef struct {
    int64_t attends, gated, activation;
    int64_t keys, sees; /* which set an attention reads, and how many earlier places, -1 for all */
    int64_t fades;
    int64_t drops; /* whether weights are left out: those are kept with a minus */
    int64_t source; /* places of a source that it reads in place of the memory; 0 for none */
    const float *fade; /* (H, fades): what is added to scores, the farthest first; or NULL */
    const float *source_k, *source_v; /* (B, G, source, K) */
    Norm before, after;
    Matrix enter, leave; /* on the way back, both turned over */
    float *sum;          /* (T, B, D): what a norm after the sum reads */
    float *h;            /* (T, B, F): before the activation */
    float *q, *y;        /* (T, B, H·K) */
    float *weights;      /* (T, B, H, C) */
    const uint8_t *stay; /* 0 for weights, (T, B, H, C), or activations, (T, B, F), that are left out; or NULL */
    const uint8_t *stay_out; /* (T, B, D): the same for what is added to the stream */
    /* Gradients: of a block's places, of which the weights' will be formed; and of all places, for the keys'. */
    float *to_out, *to_in, *to_sum, *to_stream;
    float *to_scores, *to_y;
} Sublayer;

typedef struct {
    int64_t rows, dim, places, heads, groups, size, memory, capacity, sets, streams, layers, sublayers;
    int64_t threads, by_rows;
    Sublayer *sublayer;
    const int64_t *ends;    /* (L) sublayers done */
    const int64_t *stream;  /* (A) */
    const float *compose;   /* (R, L) */
    Norm entry;
    Matrix *project;        /* (A) D → 2·G·K; on the way back, turned over */
    Matrix near;            /* K → distances, the farthest first; turned over on the way back. No weight: none */
    const float *mask;      /* (T, B, C), or NULL */
    const float *source_mask; /* (B, source), or NULL */
    const float *cos, *sin; /* (T, turned, K), or NULL */
    int64_t turned;         /* rows of them: B or 1 */
    float *x;               /* (sublayers + 1, T, B, D) */
    float *k, *v;           /* (A, B, G, C, K) */
    float *m;               /* (T, R, B, D) */
    const float *to_last;   /* (T, B, D) */
    float *to_first;        /* (T, B, D) */
    float *to_k, *to_v;     /* as k and v */
    float *to_kv, *to_m;    /* (block, A, B, 2·G·K) and (block, R, B, D) */
    float *wide, *made;     /* room for all: (B, F), and what keys and values are made of, with them */
    float *room;            /* room for each thread */
    int64_t private;        /* floats of that */
    int64_t vectors;        /* and how many of them stand before the room of its products */
} Loop;

/* Threads either have rows of their own, and never wait; or all rows together, and each some of the features. */
typedef struct {
    int64_t first, rows;   /* those of the team */
    int64_t from, to;      /* rows of which this thread does what is done to a whole vector */
    int64_t begin, end;    /* (row, key head) pairs, counted over all rows, that it attends with */
    int64_t member, members;
    float *mine, *room;  /* its own room, and that of its products */
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

/* x[n] = 0 for numbers that are left out. */
INLINE void leave_out(const uint8_t *stay, float *x, int64_t N) {
    for (int64_t n = 0; n < N; n++) x[n] = stay[n] ? x[n] : 0;
}

/* Keys that an attention sees from place t: the first, and how many. */
INLINE int64_t seen(const Loop *l, const Sublayer *s, int64_t t, int64_t *M) {
    int64_t end = s->source ? s->source : l->memory + t, start = s->sees < 0 || s->source ? 0 : MAX(0, end - s->sees);
    *M = end - start;
    return start;
}

/* How many keys it has room for, and where those of a (row, key head) pair begin. */
INLINE int64_t keys(const Loop *l, const Sublayer *s) { return s->source ? s->source : l->capacity; }
INLINE int64_t keys_of(const Loop *l, const Sublayer *s, int64_t pair) {
    return (s->source ? pair : s->keys * l->rows * l->groups + pair) * keys(l, s) * l->size;
}

/* What is added to the scores of a row; or NULL. */
INLINE const float *mask_of(const Loop *l, const Sublayer *s, int64_t t, int64_t b) {
    const float *mask = s->source ? l->source_mask : l->mask;
    return mask ? mask + (s->source ? b : t * l->rows + b) * keys(l, s) : NULL;
}

INLINE void turn_at(const Loop *l, int64_t t, int64_t b, float *x, int back) {
    int64_t where = (t * l->turned + (l->turned > 1 ? b : 0)) * l->size;
    if (l->cos) turn(x, l->cos + where, l->sin + where, l->size, back);
}

static void pack_all(const Loop *l) {
    for (int64_t n = 0; n < l->sublayers; n++) pack(&l->sublayer[n].enter), pack(&l->sublayer[n].leave);
    for (int64_t a = 0; a < l->sets; a++) pack(l->project + a);
    if (l->near.weight) pack(&l->near);
}
