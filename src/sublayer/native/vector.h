/* Eight floats at a time, in the vector type that GCC and Clang compile for any processor. */

#include <math.h>
#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
#define THREAD omp_get_thread_num()
#define THREADS omp_get_num_threads()
#else
#define THREAD 0
#define THREADS 1
#endif

#define INLINE static inline __attribute__((always_inline))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define LANES 8 /* floats of a vector */

typedef float v8 __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE float total(v8 a) {
    return ((a[0] + a[4]) + (a[1] + a[5])) + ((a[2] + a[6]) + (a[3] + a[7]));
}

INLINE float dot(const float *x, const float *y, int64_t W) {
    v8 parts = {0};
    int64_t k = 0;
    for (; k + LANES <= W; k += LANES) parts += *(const v8 *)(x + k) * *(const v8 *)(y + k);
    float rest = total(parts);
    for (; k < W; k++) rest += x[k] * y[k];
    return rest;
}

INLINE float sum(const float *x, int64_t W) {
    v8 parts = {0};
    int64_t k = 0;
    for (; k + LANES <= W; k += LANES) parts += *(const v8 *)(x + k);
    float rest = total(parts);
    for (; k < W; k++) rest += x[k];
    return rest;
}

INLINE float largest(const float *x, int64_t W) {
    float most[LANES];
    int64_t k = 0;
    for (int e = 0; e < LANES; e++) most[e] = x[0];
    for (; k + LANES <= W; k += LANES)
        for (int e = 0; e < LANES; e++) most[e] = MAX(most[e], x[k + e]);
    for (; k < W; k++) most[0] = MAX(most[0], x[k]);
    for (int e = 1; e < LANES; e++) most[0] = MAX(most[0], most[e]);
    return most[0];
}

/* e^x = 2^n e^r, r in ±ln2/2, e^r by its series: without a branch, so that loops of it become vector code.
   NaN stays NaN. */
INLINE float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float n = floorf(x * 1.44269504f + 0.5f);
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { int32_t i; float f; } scale = {((int32_t)n + 127) << 23};
    return p * scale.f;
}
