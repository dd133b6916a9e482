/* Norms and activations of one vector. Needs vector.h. */

#include <string.h>

enum { NO_NORM, LAYER_NORM, RMS_NORM };
enum { RELU, GELU, GELU_TANH, SWISH, SIGMOID, LINEAR };

typedef struct {
    int64_t kind;
    const float *gain, *shift; /* may be NULL */
    double eps;
} Norm;

static void normalise(const Norm *norm, const float *x, float *y, int64_t D) {
    if (norm->kind == NO_NORM) {
        memmove(y, x, D * sizeof(float));
        return;
    }
    float mean = norm->kind == LAYER_NORM ? sum(x, D) / D : 0;
    for (int64_t d = 0; d < D; d++) y[d] = x[d] - mean;
    float scale = 1.0f / sqrtf(dot(y, y, D) / D + (float)norm->eps);
    for (int64_t d = 0; d < D; d++) y[d] *= scale;
    if (norm->gain)
        for (int64_t d = 0; d < D; d++) y[d] *= norm->gain[d];
    if (norm->shift)
        for (int64_t d = 0; d < D; d++) y[d] += norm->shift[d];
}

/* x Φ(x) by erfc(a) = t P(t) e^(−a²), t = 1/(1 + 0.3275911 a), off by 1.5e-7 at most (Abramowitz & Stegun 7.1.26). */
INLINE float gelu(float x) {
    float a = fabsf(x) * 0.7071067812f, t = 1 / (1 + 0.3275911f * a), p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float tail = 0.5f * x * p * t * exponential(-a * a);
    return x > 0 ? x - tail : tail;
}

static void activate(int64_t kind, float *y, int64_t N) {
    const float root = 0.7978845608f; /* √(2/π) */
    if (kind == RELU)
        for (int64_t n = 0; n < N; n++) y[n] = MAX(y[n], 0);
    else if (kind == GELU)
        for (int64_t n = 0; n < N; n++) y[n] = gelu(y[n]);
    else if (kind == GELU_TANH) /* (1 + tanh t)/2 = 1/(1 + e^−2t) */
        for (int64_t n = 0; n < N; n++)
            y[n] = y[n] / (1 + exponential(-2 * root * (y[n] + 0.044715f * y[n] * y[n] * y[n])));
    else if (kind == SWISH)
        for (int64_t n = 0; n < N; n++) y[n] = y[n] / (1 + exponential(-y[n]));
    else if (kind == SIGMOID)
        for (int64_t n = 0; n < N; n++) y[n] = 1 / (1 + exponential(-y[n]));
}
