/* One query's scores: an interval [lo, hi) of them counts, and whole vectors are computed, from the one that holds lo to
   the one that holds hi − 1. What else these two hold is given a value that does not matter. */

#ifdef __AVX__
#include <immintrin.h>
#endif

typedef int32_t ivec __attribute__((vector_size(4 * VECTOR), aligned(4)));

#define BEGIN(lo) ((lo) / VECTOR * VECTOR)

INLINE vec each(float x) {
    return x - (vec){0};
}

/* The larger of two, the second where one is no number: C has no such operation on vectors. */
INLINE vec larger(vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    for (int e = 0; e < VECTOR; e++) a[e] = MAX(a[e], b[e]);
    return a;
#endif
}

INLINE vec lanes(void) {
    vec n;
    for (int e = 0; e < VECTOR; e++) n[e] = e;
    return n;
}

/* As vector.h's `exponential`, of numbers up to 88. Adding 1.5 · 2^23 rounds to a whole number, which then stands in the
   lowest bits. */
INLINE vec exponentials(vec x) {
    x = larger(each(-87.0f), x);
    vec shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f, p = each(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return p * (vec)(((ivec)shifted << 23) + 0x3F800000);
}

/* As exponentials of x − top, but 0 where x is hidden: −FLT_MAX. */
INLINE vec weights(vec x, float top, int hides) {
    vec found = exponentials(x - top);
    return hides ? (vec)((ivec)found & (x != -FLT_MAX)) : found;
}

INLINE void clip(float *x, int64_t lo, int64_t hi, float value) {
    vec n = lanes();
    ivec inside = (n >= (float)lo) & (n < (float)hi);
    *(vec *)x = (vec)(((ivec)*(vec *)x & inside) | ((ivec)each(value) & ~inside));
}

/* What the first and the last vector hold beside the interval. */
static void clip_ends(float *x, int64_t lo, int64_t hi, float value) {
    int64_t first = BEGIN(lo), last = BEGIN(hi - 1);
    clip(x + first, lo - first, hi - first, value);
    clip(x + last, lo - last, hi - last, value);
}

/* Zeros from `from` to `to` in the vectors that hold nothing of the interval. */
INLINE void clear_beside(float *x, int64_t from, int64_t lo, int64_t hi, int64_t to) {
    for (int64_t j = from; j < BEGIN(lo); j += VECTOR) *(vec *)(x + j) = (vec){0};
    for (int64_t j = UP(hi, VECTOR); j < to; j += VECTOR) *(vec *)(x + j) = (vec){0};
}

static float highest(float *x, int64_t lo, int64_t hi) {
    vec most = each(-FLT_MAX), other = most;
    int64_t j = BEGIN(lo);
    clip_ends(x, lo, hi, -FLT_MAX);
    for (; j + VECTOR < hi; j += 2 * VECTOR) {
        most = larger(most, *(vec *)(x + j));
        other = larger(other, *(vec *)(x + j + VECTOR));
    }
    if (j < hi) most = larger(most, *(vec *)(x + j));
    most = larger(most, other);
    float m[VECTOR];
    memcpy(m, &most, sizeof m);
    for (int n = VECTOR / 2; n; n /= 2)
        for (int e = 0; e < n; e++) m[e] = MAX(m[e], m[e + n]);
    return m[0];
}

/* x[j] = e^(x[j] − top), of what `highest` has gone through; their sum. */
INLINE float weigh(float *x, int64_t lo, int64_t hi, float top, int hides) {
    vec sums = {0};
    for (int64_t j = BEGIN(lo); j < hi; j += VECTOR) sums += *(vec *)(x + j) = weights(*(vec *)(x + j), top, hides);
    clip_ends(x, lo, hi, 0);
    float s[VECTOR];
    memcpy(s, &sums, sizeof s);
    for (int n = VECTOR / 2; n; n /= 2)
        for (int e = 0; e < n; e++) s[e] += s[e + n];
    return s[0];
}

/* x[j] = e^(x[j] − log). */
static void weigh_again(float *x, int64_t lo, int64_t hi, float log, int hides) {
    clip_ends(x, lo, hi, -FLT_MAX);
    for (int64_t j = BEGIN(lo); j < hi; j += VECTOR) *(vec *)(x + j) = weights(*(vec *)(x + j), log, hides);
    clip_ends(x, lo, hi, 0);
}

/* From scores and dP to the weights P = e^(x[j] − log) and dS = P (dP − mean). */
INLINE void weigh_back(float *x, float *to, int64_t lo, int64_t hi, float log, float mean, int hides) {
    clip_ends(x, lo, hi, -FLT_MAX);
    for (int64_t j = BEGIN(lo); j < hi; j += VECTOR) {
        vec p = weights(*(vec *)(x + j), log, hides);
        *(vec *)(x + j) = p;
        *(vec *)(to + j) = p * (*(vec *)(to + j) - mean);
    }
    clip_ends(x, lo, hi, 0);
}
