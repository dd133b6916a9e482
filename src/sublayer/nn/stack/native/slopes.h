/* Gradients of norms and activations. Needs pointwise.h. */

/* In place: `to` holds the gradient of norm(x), then that of x. */
static void unnormalise(const Norm *norm, const float *x, float *to, int64_t D) {
    float mean = sum(x, D) / D, both = 0, square = 0, plain = 0;
    v8 squares = {0}, boths = {0}, plains = {0};
    int64_t d = 0;
    if (norm->gain)
        for (int64_t e = 0; e < D; e++) to[e] *= norm->gain[e];
    for (; d + LANES <= D; d += LANES) {
        v8 apart = *(const v8 *)(x + d) - mean, one = *(const v8 *)(to + d);
        squares += apart * apart;
        boths += apart * one;
        plains += one;
    }
    for (; d < D; d++) {
        square += (x[d] - mean) * (x[d] - mean);
        both += (x[d] - mean) * to[d];
        plain += to[d];
    }
    square += total(squares), both += total(boths), plain += total(plains);
    float scale = 1.0f / sqrtf(square / D + (float)norm->eps), slope = scale * scale * both / D, level = plain / D;
    for (d = 0; d < D; d++) to[d] = scale * (to[d] - level - (x[d] - mean) * slope);
}

/* Φ(x) + x φ(x), Φ as in gelu(). */
INLINE float gelu_slope(float x) {
    float a = fabsf(x) * 0.7071067812f, t = 1 / (1 + 0.3275911f * a), p = 1.061405429f, bell = exponential(-a * a);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float tail = 0.5f * p * t * bell;
    return (x > 0 ? 1 - tail : tail) + 0.3989422804f * x * bell;
}

/* s(x) + x s(x) (1 − s(x)) t′(x), for x s(x), s(x) = 1/(1 + e^−t(x)), as in activate(). */
INLINE float gelu_tanh_slope(float x) {
    const float twice = 1.5957691216f; /* 2 √(2/π) */
    float s = 1 / (1 + exponential(-twice * (x + 0.044715f * x * x * x)));
    return s + x * s * (1 - s) * twice * (1 + 3 * 0.044715f * x * x);
}

/* to[n] *= act′(h[n]) */
static void deactivate(int64_t kind, const float *h, float *to, int64_t N) {
    if (kind == RELU)
        for (int64_t n = 0; n < N; n++) to[n] = h[n] > 0 ? to[n] : 0;
    else if (kind == GELU)
        for (int64_t n = 0; n < N; n++) to[n] *= gelu_slope(h[n]);
    else if (kind == GELU_TANH)
        for (int64_t n = 0; n < N; n++) to[n] *= gelu_tanh_slope(h[n]);
    else if (kind == SIGMOID)
        for (int64_t n = 0; n < N; n++) {
            float s = 1 / (1 + exponential(-h[n]));
            to[n] *= s * (1 - s);
        }
    else if (kind == SWISH)
        for (int64_t n = 0; n < N; n++) {
            float s = 1 / (1 + exponential(-h[n]));
            to[n] *= s * (1 + h[n] * (1 - s));
        }
}
