/* One token, backwards. Needs loop.h. `to_x` is the gradient of the loss by x. */

/* Through dropout: p < 0 marks a dropped weight, so `to` becomes 0 there; `size` = |p| is the softmax before dropout. */
static void undrop(const float *p, float *to, int64_t M, float *size) {
    for (int64_t j = 0; j < M; j++) to[j] = p[j] > 0 ? to[j] : 0, size[j] = fabsf(p[j]);
}

/* From the gradients of y to those of q; adds to those of the keys and values of this block, which starts at `block`.
   Keys before the block get theirs from all tokens at once, in one product of PyTorch. */
static void unattend(const Loop *l, const Sublayer *s, const Team *team, int64_t t, int64_t block, float *to_q) {
    int64_t K = l->size, H = l->heads, J = H / l->groups, C = keys(l, s), M, start = seen(l, s, t, &M);
    int64_t begin = team->begin * J, end = team->end * J, near = MAX(start, l->memory + block);
    int64_t inside = s->source ? M : near - start; /* a source gets its gradients from all tokens at once */
    const float *k = s->source ? s->source_k : l->k, *v = s->source ? s->source_v : l->v;
    const float *q = at(l, s->q, t, H * K), *to_y = at(l, s->to_y, t, H * K);
    float *to_scores = at(l, s->to_scores, t, H * C) + start, *weights = at(l, s->weights, t, H * C) + start;
    if (!M) {
        memset(to_q + begin * K, 0, (end - begin) * K * sizeof(float));
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t set = keys_of(l, s, i / J) + start * K;
        float *to = to_scores + i * C, *p = weights + i * C, *other = s->drops ? team->mine : p;
        ask(to_y + i * K, v + set, M, K, to);
        if (s->drops) undrop(p, to, M, other);
        unsoftmax(other, to, M);
        blend(to, k + set, M, K, to_q + i * K);
        spread(to + inside, q + i * K, M - inside, K, l->to_k + set + inside * K);
        for (int64_t j = inside; j < M && s->drops; j++) other[j] = MAX(p[j], 0);
        spread(other + inside, to_y + i * K, M - inside, K, l->to_v + set + inside * K);
    }
    if (s->source) return;
    if (l->near.weight) {
        const float *shares = to_scores + begin * C;
        multiply_part(&l->near, l->near.in - M, M, shares, C, DEEP, end - begin, 0, K, to_q + begin * K, K);
    }
    for (int64_t i = begin; i < end; i++) rotate_at(l, t, i / H, to_q + i * K, 1);
}

/* From the gradients of act(h) to those of h, this thread's features. */
static void unfeed(const Loop *l, const Sublayer *s, const Team *team, int64_t t, const float *to, float *to_h) {
    int64_t D = l->dim, F = s->leave.out, W = s->enter.in, first = team->first, from, end;
    float *to_y = s->gated ? l->wide : to_h;
    const float *saved = at(l, s->h, t, W);
    share(team, F, &from, &end);
    fill(&s->leave, to + first * D, D, team->rows, from, end, to_y + first * F, F, team->room);
    for (int64_t b = first; b < first + team->rows; b++) {
        const float *h = saved + b * W;
        float *gate = to_h + b * W, *y = to_y + b * F;
        if (s->stay) drop(s->stay + (t * l->rows + b) * F + from, y + from, end - from);
        if (s->gated) {
            memcpy(gate + F + from, h + from, (end - from) * sizeof(float));
            activate(s->activation, gate + F + from, end - from);
            for (int64_t f = from; f < end; f++) gate[F + f] *= y[f], gate[f] = y[f] * h[F + f];
        }
        deactivate(s->activation, h + from, gate + from, end - from);
    }
}

/* Adds the memory's gradient of the layer outputs that stand after `done` sublayers, in this thread's rows. */
static void add_memory(const Loop *l, const Team *team, int64_t done, const float *to_m, float *to) {
    int64_t B = l->rows, D = l->dim;
    for (int64_t n = 0; n < l->layers; n++)
        for (int64_t r = 0; r < l->streams && l->ends[n] == done; r++) {
            float weight = l->compose[r * l->layers + n];
            for (int64_t b = team->from; b < team->to; b++)
                for (int64_t d = 0; d < D; d++) to[b * D + d] += weight * to_m[(r * B + b) * D + d];
        }
}

/* Through keys and values to the memory vectors of a token. */
static void unremember(const Loop *l, const Team *team, int64_t t, float *to_kv, float *to_m) {
    int64_t B = l->rows, D = l->dim, G = l->groups, K = l->size, Z = 2 * G * K, from, to, where = l->memory + t;
    for (int64_t a = 0; a < l->sets; a++)
        for (int64_t i = team->begin; i < team->end; i++) {
            float *k = to_kv + ((a * B + i / G) * 2 * G + i % G) * K;
            int64_t of = ((a * B * G + i) * l->capacity + where) * K;
            memcpy(k, l->to_k + of, K * sizeof(float));
            memcpy(k + G * K, l->to_v + of, K * sizeof(float));
            rotate_at(l, t, i / G, k, 1);
        }
    WAIT
    share(team, D, &from, &to);
    for (int64_t r = 0; r < l->streams; r++)
        for (int64_t b = team->first; b < team->first + team->rows; b++)
            memset(to_m + (r * B + b) * D + from, 0, (to - from) * sizeof(float));
    for (int64_t a = 0; a < l->sets; a++) {
        float *m = to_m + (l->stream[a] * B + team->first) * D;
        multiply(l->project + a, to_kv + (a * B + team->first) * Z, Z, team->rows, from, to, m, D, team->room);
    }
    WAIT
    const float *m = l->m + t * l->streams * B * D;
    for (int64_t r = 0; r < l->streams && l->entry.kind; r++)
        for (int64_t b = team->from; b < team->to; b++)
            unnormalise(&l->entry, m + (r * B + b) * D, to_m + (r * B + b) * D, D);
}

/* From the gradient of a sublayer's output, in `to_out`, to that of its input, in `to`. */
static void unstep(const Loop *l, const Sublayer *s, const Team *team, int64_t t, int64_t block, const float *x,
                   float *to) {
    int64_t D = l->dim, W = s->enter.in, first = team->first, from, end;
    float *to_out = at(l, s->to_out, t - block, D), *to_in = at(l, s->to_in, t - block, W);
    float *to_stream = s->stay_out ? at(l, s->to_stream, t - block, D) : to_out;
    if (s->after.kind) {
        float *to_sum = at(l, s->to_sum, t - block, D), *sum = at(l, s->sum, t, D);
        for (int64_t b = team->from; b < team->to; b++) {
            memcpy(to_sum + b * D, to_out + b * D, D * sizeof(float));
            unnormalise(&s->after, sum + b * D, to_out + b * D, D);
        }
    }
    if (s->stay_out)
        for (int64_t b = team->from; b < team->to; b++) {
            memcpy(to_stream + b * D, to_out + b * D, D * sizeof(float));
            drop(s->stay_out + (t * l->rows + b) * D, to_out + b * D, D);
        }
    WAIT
    if (s->attends) {
        float *to_y = at(l, s->to_y, t, W);
        share(team, W, &from, &end);
        fill(&s->leave, to_out + first * D, D, team->rows, from, end, to_y + first * W, W, team->room);
        WAIT
        unattend(l, s, team, t, block, to_in);
    } else
        unfeed(l, s, team, t, to_out, to_in);
    WAIT
    share(team, D, &from, &end);
    fill(&s->enter, to_in + first * W, W, team->rows, from, end, to + first * D, D, team->room);
    WAIT
    for (int64_t b = team->from; b < team->to; b++) {
        if (s->before.kind) unnormalise(&s->before, x + b * D, to + b * D, D);
        for (int64_t d = 0; d < D; d++) to[b * D + d] += to_stream[b * D + d];
    }
}

/* One token through all sublayers. Matrices are transposed and have no bias. */
static void back(const Loop *l, const Team *team, int64_t t, int64_t block) {
    int64_t B = l->rows, D = l->dim, N = l->sublayers;
    float *to_m = at(l, l->to_m, t - block, l->streams * D);
    float *to_kv = at(l, l->to_kv, t - block, l->sets * 2 * l->groups * l->size);
    float *to = N ? at(l, l->sublayer[N - 1].to_out, t - block, D) : at(l, l->to_first, t, D);
    unremember(l, team, t, to_kv, to_m);
    for (int64_t b = team->from; b < team->to; b++)
        memcpy(to + b * D, l->to_last + (t * B + b) * D, D * sizeof(float));
    add_memory(l, team, N, to_m, to);
    for (int64_t n = N - 1; n >= 0; n--) {
        to = n ? at(l, l->sublayer[n - 1].to_out, t - block, D) : at(l, l->to_first, t, D);
        unstep(l, l->sublayer + n, team, t, block, l->x + (n * l->tokens + t) * B * D, to);
        add_memory(l, team, n, to_m, to);
    }
}
