/* The delta rule within a chunk, and its gradient. Part of recurrence.c.

   What token i adds to the sums is k_i (b_i e_i)ᵀ, where e_i is the error that its key's value would have before it:

       e_i = v_i − e^(A_i) Sᵀ k_i − Σ_(j < i) G_ij b_j e_j,   G_ij = (k_i · k_j) e^(A_i − A_j)

   one small triangular system, solved row by row: in blocks of TALL rows, whose products with all rows before them go
   through `product`. Backward, from the gradient du of what is added: p_j = du_j − Σ_(i > j) G_ij b_i p_i, which is the
   system transposed, dv = b p and db_j = e_j · p_j. It needs S only for what Sᵀ k_i gives keys: `sums_back`, on the way
   through the text on which there is S, adds that. */

static void read_strengths(const Recurrence *p, int64_t b, int64_t g, int64_t first, Chunk *c) {
    for (int64_t i = 0; i < HIGH; i++) c->strength[i] = i < c->R ? *number(p->strength, b, g, first + i) : 0;
}

/* −G, zero from the diagonal on: rows times `rows`, or columns times `columns`. */
static void met_before(const Recurrence *p, const Chunk *c, const float *rows, const float *columns, float *met) {
    meet(p, c, c->k, met);
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t j = 0; j < CHUNK; j++) met[i * CHUNK + j] *= j < i ? -(rows ? rows[i] : columns[j]) : 0;
}

/* c->v from values to errors. */
static void find_errors(const Recurrence *p, int64_t b, int64_t g, int64_t first, Chunk *c) {
    int64_t F = p->features, K = p->size;
    float *e = c->v, *held = c->y;
    rows_by_rows(UP(CHUNK, TALL), K, F, c->k, F, c->s, held, 0);
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t k = 0; k < K; k++) e[i * K + k] -= c->into[i] * held[i * K + k];
    met_before(p, c, 0, c->strength, c->scores);
    for (int64_t top = 0; top < CHUNK; top += TALL) {
        if (top) rows_by_rows(TALL, K, top, c->scores + top * CHUNK, CHUNK, e, e + top * K, 1);
        for (int64_t i = top + 1; i < MIN(top + TALL, CHUNK); i++)
            for (int64_t j = top; j < i; j++)
                for (int64_t k = 0; k < K; k++) e[i * K + k] += c->scores[i * CHUNK + j] * e[j * K + k];
    }
    if (p->errors.at) write_rows(e, c->R, K, p->errors, b, g, first);
}

/* c->to_v from the gradient of what is added to that of values; to c->to_k and c->s what they get by G and by Sᵀ k. */
static void errors_back(const Recurrence *p, int64_t b, int64_t g, int64_t first, Chunk *c) {
    int64_t F = p->features, K = p->size, tall = UP(CHUNK, TALL);
    float *to = c->to_v;
    met_before(p, c, c->strength, 0, c->scores);
    for (int64_t top = (CHUNK - 1) / TALL * TALL; top >= 0; top -= TALL) {
        int64_t below = MIN(top + TALL, CHUNK);
        if (below < CHUNK)
            columns_by_rows(TALL, K, CHUNK - below, c->scores + below * CHUNK + top, CHUNK, to + below * K, to + top * K, 1);
        for (int64_t j = below - 2; j >= top; j--)
            for (int64_t i = j + 1; i < below; i++)
                for (int64_t k = 0; k < K; k++) to[j * K + k] += c->scores[i * CHUNK + j] * to[i * K + k];
    }
    for (int64_t j = 0; p->to_strength.at && j < c->R; j++)
        *number(p->to_strength, b, g, first + j) = dot(number(p->errors, b, g, first + j), to + j * K, K);
    scale_rows(to, K, c->strength);
    /* dG_ij = −dv_i · u_j, u = b e */
    rows_by_panels(tall, CHUNK, K, to, K, c->v_panels, c->to_scores, CHUNK, 0);
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t j = 0; j < CHUNK; j++) c->to_scores[i * CHUNK + j] *= j < i ? -c->between[i * CHUNK + j] : 0;
    rows_by_rows(tall, F, CHUNK, c->to_scores, CHUNK, c->k, c->to_k, 1);
    columns_by_rows(tall, F, CHUNK, c->to_scores, CHUNK, c->k, c->to_k, 1);
    for (int64_t i = 0; i < CHUNK; i++)
        for (int64_t k = 0; k < K; k++) c->y[i * K + k] = -c->into[i] * to[i * K + k];
    columns_by_rows(UP(F, TALL), K, CHUNK, c->k, F, c->y, c->s, 1);
}

/* dk_i −= e^(A_i) S dv_i, where c->s_panels are of S before the chunk. */
static void sums_back(const Recurrence *p, int64_t b, int64_t g, int64_t first, Chunk *c) {
    int64_t F = p->features, K = p->size, X = p->map.size;
    read_rows(p->to_v, b, g, first, K, c->R, c->y);
    for (int64_t i = 0; i < c->R; i++)
        for (int64_t k = 0; k < K; k++) c->y[i * K + k] *= -c->into[i];
    rows_by_panels(UP(CHUNK, TALL), F, K, c->y, K, c->s_panels, c->to_k, F, 0);
    const float *more = features_back(&p->map, c->w, c->k_given, c->k_lengths, c->k, c->R, F, c->to_k, c->to_given, p->to_w ? c->to_w : 0);
    for (int64_t i = 0; i < c->R; i++)
        for (int64_t x = 0; x < X; x++) number(p->to_k, b, g, first + i)[x] += more[i * X + x];
}
