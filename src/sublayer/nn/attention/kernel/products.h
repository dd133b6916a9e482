/* `product` in the three forms in which recurrence.c needs it, each compiled once. Needs product.h. */

#define ONCE static __attribute__((noinline)) void

/* out (I, J) = a (I, T) b (T, J), or += if `adds`; rows of a, b and out are `row`, J and J floats apart. */
ONCE rows_by_rows(int64_t I, int64_t J, int64_t T, const float *a, int64_t row, const float *b, float *out, int adds) {
    product(I, J, T, a, row, 1, b, WIDE, J, out, J, adds);
}

/* The same with b in panels, and rows of out `apart`. */
ONCE rows_by_panels(int64_t I, int64_t J, int64_t T, const float *a, int64_t row, const float *panels, float *out, int64_t apart,
                    int adds) {
    product(I, J, T, a, row, 1, panels, T * WIDE, WIDE, out, apart, adds);
}

/* out (I, J) = aᵀ b, where rows of a (T, I) are `row` floats apart. */
ONCE columns_by_rows(int64_t I, int64_t J, int64_t T, const float *a, int64_t row, const float *b, float *out, int adds) {
    product(I, J, T, a, 1, row, b, WIDE, J, out, J, adds);
}
