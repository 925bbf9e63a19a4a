/* The kernel of handful/core/prepare.py: one task at a time, with its features in the cache.

   All steps between two means over the task are applied to an item while it is in the first-level cache. Features are
   read once and written once. */

enum { TASK, BASE, NONE, L2, POWER, SIGNED }; /* kinds of steps, as preparation.py numbers them */
#define SUMMED_TOGETHER 128 /* items; sums of so many lose no digits that count, and those are summed in double */

typedef struct {
    integer batch, n_support, n_query, dimension, steps;
} PrepareSizes;

INLINE void subtract(real *item, const real *mean, integer n) {
    for (integer d = 0; d < n; d += LANES) store(item + d, load(item + d) - load(mean + d));
}

/* One step, to one item. */
INLINE void apply(integer kind, real exponent, real *item, const real *base, integer dimension, integer padded_d,
                  real floor) {
    if (kind == BASE) {
        subtract(item, base, padded_d);
    } else if (kind == L2) {
        real inverse = inverse_length(item, padded_d, floor);
        for (integer d = 0; d < padded_d; d += LANES) store(item + d, load(item + d) * inverse);
    } else if (kind == POWER) {
        for (integer d = 0; d < padded_d; d += LANES) {
            vec x = larger(load(item + d), fill(0)) + (real)1e-6;
            store(item + d, exponent == (real)0.5 ? root(x) : power(x, exponent));
        }
        for (integer d = dimension; d < padded_d; d++) item[d] = 0; /* padding must not count in a norm */
    } else if (kind == SIGNED) {
        for (integer d = 0; d < padded_d; d += LANES) {
            vec x = load(item + d);
            store(item + d, with_sign(power(magnitude(x), exponent), x));
        }
    }
}

EXPORT int ENTRY(prepare)(const PrepareSizes *sizes, const double *floor, const real *support, const real *query,
                          const integer *kinds, const real *exponents, const real *base, real *means,
                          real *out) {
    const integer n_support = sizes->n_support, n_query = sizes->n_query, dimension = sizes->dimension;
    const integer n_items = n_support + n_query, padded_d = padded(dimension, LANES);
    const size_t bytes = (size_t)dimension * sizeof(real);
    Memory memory = {{0}, 0, 0};
    real *x = MATRIX(&memory, n_items, padded_d), *sum = MATRIX(&memory, 1, padded_d);
    real *mean = MATRIX(&memory, 1, padded_d), *base_mean = MATRIX(&memory, 1, padded_d);
    double *whole = zeros(&memory, dimension * (integer)sizeof(double));
    if (memory.is_full) return free_all(&memory);
    memcpy(base_mean, base, bytes);
    for (integer b = 0; b < sizes->batch; b++)
        for (integer begin = 0, end; begin <= sizes->steps; begin = end + 1) { /* the steps up to the next task mean */
            for (end = begin; end < sizes->steps && kinds[end] != TASK;) end++;
            memset(sum, 0, (size_t)padded_d * sizeof(real));
            memset(whole, 0, (size_t)dimension * sizeof(double));
            for (integer i = 0; i < n_items; i++) {
                const integer s = b * n_support + i, q = b * n_query + i - n_support;
                real *item = x + i * padded_d;
                if (begin == 0)
                    memcpy(item, i < n_support ? support + s * dimension : query + q * dimension, bytes);
                else
                    subtract(item, mean, padded_d);
                for (integer step = begin; step < end; step++)
                    apply(kinds[step], exponents[step], item, base_mean, dimension, padded_d, (real)*floor);
                if (end == sizes->steps) {
                    memcpy(out + (b * n_items + i) * dimension, item, bytes);
                    continue;
                }
                for (integer d = 0; d < padded_d; d += LANES) store(sum + d, load(sum + d) + load(item + d));
                if (i % SUMMED_TOGETHER == SUMMED_TOGETHER - 1 || i == n_items - 1)
                    for (integer d = 0; d < dimension; d++) {
                        whole[d] += (double)sum[d];
                        sum[d] = 0;
                    }
            }
            if (end == sizes->steps) break;
            for (integer d = 0; d < dimension; d++) mean[d] = (real)(whole[d] / (double)n_items);
            memcpy(means, mean, bytes); /* [task, mean, feature] */
            means += dimension;
        }
    return free_all(&memory);
}
