/* One query on its keys. Needs matrix.h. */

static void rotate(float *x, const float *rotation, int64_t K) {
    int64_t half = K / 2;
    for (int64_t e = 0; e < half; e++) {
        float a = x[e], b = x[e + half], cosine = rotation[e], sine = rotation[e + half];
        x[e] = a * cosine - b * sine;
        x[e + half] = b * cosine + a * sine;
    }
}

/* y[e] = scale Σ_j p[j] v[j, e] for R vectors of features, whose sums stay in registers. */
INLINE void blend(const int R, const float *p, const float *v, int64_t M, int64_t K, float scale, float *y) {
    v8 parts[4];
    for (int r = 0; r < R; r++) parts[r] = (v8){0};
    for (int64_t j = 0; j < M; j++)
        for (int r = 0; r < R; r++) parts[r] += p[j] * *(const v8 *)(v + j * K + LANES * r);
    for (int r = 0; r < R; r++)
        for (int e = 0; e < LANES; e++) y[LANES * r + e] = parts[r][e] * scale;
}

/* p[j] += q·k[j] on M keys. */
static void ask(const float *q, const float *k, int64_t M, int64_t K, float *p) {
    Matrix keys = {.out = M, .in = K, .weight = k};
    multiply_few(&keys, q, 1, 0, M, p, M);
}

/* y = softmax(p + q kᵀ) v on M keys; zeros where there is none. */
static void attend(const float *q, const float *k, const float *v, int64_t M, int64_t K, float *p, float *y) {
    float most = -INFINITY;
    ask(q, k, M, K, p);
    for (int64_t j = 0; j < M; j++) most = MAX(most, p[j]);
    for (int64_t j = 0; j < M; j++) p[j] = exponential(p[j] - most);
    float part = M ? 1.0f / sum(p, M) : 0;
    int64_t e = 0;
    for (; e + 4 * LANES <= K; e += 4 * LANES) blend(4, p, v + e, M, K, part, y + e);
    for (; e + LANES <= K; e += LANES) blend(1, p, v + e, M, K, part, y + e);
    for (; e < K; e++) {
        float rest = 0;
        for (int64_t j = 0; j < M; j++) rest += p[j] * v[j * K + e];
        y[e] = rest * part;
    }
}
