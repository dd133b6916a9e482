/* One query on M keys of size K, and back. Needs vector.h. */

/* p[j] = q·k[j] */
static void ask(const float *q, const float *k, int64_t M, int64_t K, float *p) {
    int64_t j = 0;
    for (; j + 4 <= M; j += 4) {
        v8 parts[4] = {{0}, {0}, {0}, {0}};
        const float *four = k + j * K;
        int64_t e = 0;
        for (; e + LANES <= K; e += LANES)
            for (int r = 0; r < 4; r++) parts[r] += *(const v8 *)(q + e) * *(const v8 *)(four + r * K + e);
        for (int r = 0; r < 4; r++) p[j + r] = total(parts[r]) + dot(q + e, four + r * K + e, K - e);
    }
    for (; j < M; j++) p[j] = dot(q, k + j * K, K);
}

/* y[e] = Σ_j p[j] v[j, e] for R vectors of features, whose sums stay in registers. */
INLINE void blend_lanes(const int R, const float *p, const float *v, int64_t M, int64_t K, float *y) {
    v8 parts[8];
    for (int r = 0; r < R; r++) parts[r] = (v8){0};
    for (int64_t j = 0; j < M; j++)
        for (int r = 0; r < R; r++) parts[r] += p[j] * *(const v8 *)(v + j * K + LANES * r);
    for (int r = 0; r < R; r++) *(v8 *)(y + LANES * r) = parts[r];
}

static void blend(const float *p, const float *v, int64_t M, int64_t K, float *y) {
    int64_t e = 0;
    for (; e + 8 * LANES <= K; e += 8 * LANES) blend_lanes(8, p, v + e, M, K, y + e);
    for (; e + 2 * LANES <= K; e += 2 * LANES) blend_lanes(2, p, v + e, M, K, y + e);
    for (; e + LANES <= K; e += LANES) blend_lanes(1, p, v + e, M, K, y + e);
    for (; e < K; e++) {
        y[e] = 0;
        for (int64_t j = 0; j < M; j++) y[e] += p[j] * v[j * K + e];
    }
}

/* In place; zeros for a row that sees nothing. */
static void softmax(float *p, int64_t M) {
    float most = -INFINITY;
    for (int64_t j = 0; j < M; j++) most = MAX(most, p[j]);
    if (most == -INFINITY) {
        memset(p, 0, M * sizeof(float));
        return;
    }
    for (int64_t j = 0; j < M; j++) p[j] = p[j] - most < -87.0f ? 0 : exponential(p[j] - most);
    float part = 1.0f / sum(p, M);
    for (int64_t j = 0; j < M; j++) p[j] *= part;
}

/* In place: `to` holds the gradient of softmax's weights p, then that of its scores. */
static void unsoftmax(const float *p, float *to, int64_t M) {
    float level = dot(p, to, M);
    for (int64_t j = 0; j < M; j++) to[j] = p[j] * (to[j] - level);
}

/* to[j] += p[j] x on M keys. */
static void spread(const float *p, const float *x, int64_t M, int64_t K, float *to) {
    for (int64_t j = 0; j < M; j++)
        for (int64_t e = 0; e < K; e++) to[j * K + e] += p[j] * x[e];
}

/* Rotary: cos and sin are (K), the first half of sin negated; `back` rotates the other way. */
static void rotate(float *x, const float *cos, const float *sin, int64_t K, int back) {
    int64_t half = K / 2;
    for (int64_t e = 0; e < half; e++) {
        float a = x[e], b = x[e + half];
        x[e] = a * cos[e] + b * (back ? sin[e + half] : sin[e]);
        x[e + half] = b * cos[e + half] + a * (back ? sin[e] : sin[e + half]);
    }
}
