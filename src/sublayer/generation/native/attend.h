/* One query on its keys. Needs matrix.h. */

static void rotate(float *x, const float *rotation, int64_t K) {
    int64_t half = K / 2;
    for (int64_t e = 0; e < half; e++) {
        float a = x[e], b = x[e + half], cosine = rotation[e], sine = rotation[e + half];
        x[e] = a * cosine - b * sine;
        x[e + half] = b * cosine + a * sine;
    }
}

/* Keys that a query sees: at slots `slot`, slot + step, … of a cache, `apart`, apart − hop, … tokens back. */
typedef struct {
    int64_t slot, count, step, apart, hop;
} Range;

/* y[e] = scale Σ_j p[j] v[j, e] over the keys of all ranges, for R vectors of features, whose sums stay in registers. */
INLINE void blend(const int R, const float *p, const float *v, const Range *r, int64_t ranges, int64_t K, float scale,
                  float *y) {
    v8 parts[4];
    for (int i = 0; i < R; i++) parts[i] = (v8){0};
    for (const Range *end = r + ranges; r < end; r++) {
        const float *row = v + r->slot * K;
        for (int64_t j = 0; j < r->count; j++, p++, row += r->step * K)
            for (int i = 0; i < R; i++) parts[i] += *p * *(const v8 *)(row + LANES * i);
    }
    for (int i = 0; i < R; i++)
        for (int e = 0; e < LANES; e++) y[LANES * i + e] = parts[i][e] * scale;
}

/* p[j] += q·k[j step] on M keys. */
static void ask(const float *q, const float *k, int64_t M, int64_t step, int64_t K, float *p) {
    Matrix keys = {.out = M, .in = K, .weight = k};
    if (step == 1)
        multiply_few(&keys, q, 1, 0, M, p, M);
    else
        for (int64_t j = 0; j < M; j++) few(1, 1, k + j * step * K, q, K, p + j, 1);
}

/* y = softmax(p + q kᵀ) v on the keys of all ranges; zeros where there is none. */
static void attend(const float *q, const float *k, const float *v, const Range *r, int64_t ranges, int64_t K, float *p,
                   float *y) {
    float most = -INFINITY;
    int64_t M = 0;
    for (int64_t i = 0; i < ranges; M += r[i++].count) ask(q, k + r[i].slot * K, r[i].count, r[i].step, K, p + M);
    for (int64_t j = 0; j < M; j++) most = MAX(most, p[j]);
    for (int64_t j = 0; j < M; j++) p[j] = exponential(p[j] - most);
    float part = M ? 1.0f / sum(p, M) : 0;
    int64_t e = 0;
    for (; e + 4 * LANES <= K; e += 4 * LANES) blend(4, p, v + e, r, ranges, K, part, y + e);
    for (; e + LANES <= K; e += LANES) blend(1, p, v + e, r, ranges, K, part, y + e);
    for (; e < K; e++) {
        float rest = 0;
        const float *weight = p;
        for (int64_t i = 0; i < ranges; i++)
            for (int64_t j = 0; j < r[i].count; j++) rest += *weight++ * v[(r[i].slot + j * r[i].step) * K + e];
        y[e] = rest * part;
    }
}
