/* Feature maps: what a query or key becomes before it meets others, and the way back. Their twins are the FeatureMaps of
   the kernels. Needs product.h. */

#include <float.h>

enum { SAME, ELU, UNIT, RELU, POSITIVE, WAVES };

#define SHORTEST 1e-6f /* what lengths are divided by is at least this */

typedef struct {
    int64_t kind, size;  /* size: floats of a query or key as it comes */
    int64_t drawn;       /* rows of w of a key head; 0: none */
    const float *w;      /* (G, drawn, size) */
    int64_t apart;       /* floats from one key head's w to the next's; 0: all share one */
    double floor;        /* added to RELU */
} Map;

/* sin x and cos x: x = n π/2 + r, |r| ≤ π/4, by their series; exact to 1e-7 for |x| < 1e5. */
INLINE void wave(float x, float *sine, float *cosine) {
    float n = floorf(x * 0.636619772f + 0.5f);
    float r = ((x - n * 1.5703125f) - n * 4.837512969970703e-4f) - n * 7.549789954891882e-8f, z = r * r;
    float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1;
    int32_t quarter = (int32_t)n;
    float up = quarter & 1 ? c : s, along = quarter & 1 ? s : c;
    *sine = quarter & 2 ? -up : up;
    *cosine = (quarter + 1) & 2 ? -along : along;
}

/* From w x, or x, to one row of features; of POSITIVE to its exponents. */
static void feature_row(const Map *m, const float *x, int64_t F, float *to) {
    float floor = m->floor, *cosines = to + m->drawn;
    if (m->kind == ELU)
        for (int64_t f = 0; f < F; f++) to[f] = to[f] > 0 ? to[f] + 1 : exponential(to[f]);
    else if (m->kind == RELU)
        for (int64_t f = 0; f < F; f++) to[f] = (to[f] < 0 ? 0 : to[f]) + floor;
    else if (m->kind == POSITIVE) {
        float half = 0.5f / sqrtf(m->size) * dot(x, x, m->size);
        for (int64_t f = 0; f < F; f++) to[f] -= half;
    } else if (m->kind == WAVES) {
        float by = 1 / sqrtf(m->drawn);
        for (int64_t d = 0; d < m->drawn; d++) {
            float sine, cosine;
            wave(to[d], &sine, &cosine);
            to[d] = by * sine;
            cosines[d] = by * cosine;
        }
    }
}

/* Features (R, F) of rows x, of which those maps that ask for directions only keep the `lengths` and divide by them. */
static void features(const Map *m, const float *panels, float *x, int64_t R, int64_t F, float *lengths, float *to) {
    int64_t K = m->size;
    for (int64_t i = 0; i < R && (m->kind == UNIT || m->kind == WAVES); i++) {
        lengths[i] = sqrtf(dot(x + i * K, x + i * K, K));
        float by = 1 / MAX(lengths[i], SHORTEST);
        for (int64_t k = 0; k < K; k++) x[i * K + k] *= by;
    }
    if (m->drawn)
        rows_by_panels(UP(R, TALL), m->drawn, K, x, K, panels, to, F, 0);
    else
        memcpy(to, x, R * K * sizeof(float));
    for (int64_t i = 0; i < R; i++) feature_row(m, x + i * K, F, to + i * F);
}

/* e^(exponents − most) of one row of POSITIVE. */
static void raise_row(float *to, int64_t F, float most) {
    for (int64_t f = 0; f < F; f++) to[f] = exponential(to[f] - most);
}

/* The gradient of w x, or x, in place of that of one row of features. */
static void feature_row_back(const Map *m, const float *row, int64_t F, float *to) {
    float floor = m->floor;
    const float *cosines = row + m->drawn;
    float *to_cosines = to + m->drawn;
    if (m->kind == ELU)
        for (int64_t f = 0; f < F; f++) to[f] *= MIN(row[f], 1); /* e^x where x < 0 */
    else if (m->kind == RELU)
        for (int64_t f = 0; f < F; f++) to[f] = row[f] > floor ? to[f] : 0;
    else if (m->kind == POSITIVE)
        for (int64_t f = 0; f < F; f++) to[f] *= row[f];
    else if (m->kind == WAVES)
        for (int64_t d = 0; d < m->drawn; d++) to[d] = to[d] * cosines[d] - to_cosines[d] * row[d];
}

/* From the gradient of rows of features, which is overwritten, to that of x, whose rows it returns; that of w is added to
   to_w, if it is wanted. */
static float *features_back(const Map *m, const float *w, const float *x, const float *lengths, const float *rows, int64_t R,
                            int64_t F, float *to_rows, float *to_x, float *to_w) {
    int64_t K = m->size;
    for (int64_t i = 0; i < R; i++) feature_row_back(m, rows + i * F, F, to_rows + i * F);
    if (!m->drawn)
        to_x = to_rows;
    else
        rows_by_rows(UP(R, TALL), K, m->drawn, to_rows, F, w, to_x, 0);
    if (m->drawn && to_w) columns_by_rows(UP(m->drawn, TALL), K, R, to_rows, F, x, to_w, 1);
    for (int64_t i = 0; i < R; i++) {
        const float *from = x + i * K;
        float *to = to_x + i * K;
        if (m->kind == POSITIVE) {
            float down = sum(to_rows + i * F, F) / sqrtf(K);
            for (int64_t k = 0; k < K; k++) to[k] -= down * from[k];
        } else if (m->kind == UNIT || m->kind == WAVES) {
            float along = lengths[i] < SHORTEST ? 0 : dot(from, to, K), by = 1 / MAX(lengths[i], SHORTEST);
            for (int64_t k = 0; k < K; k++) to[k] = by * (to[k] - along * from[k]);
        }
    }
    return to_x;
}
