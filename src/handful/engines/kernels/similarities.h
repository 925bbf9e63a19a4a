/* What the kernels on matrices of similarities share: sums, the nearest items, graphs, products, and the biases that hold
   the outliers at a share.

   Matrices H [side, side] have rows padded to whole panels. A product with H or E reads it in panels of WIDE columns, which
   fit the first-level cache. Rows of logits are [class, share], or [class, fold], with items innermost. */

#define PANEL 2                      /* vectors of columns in a panel */
#define WIDE (PANEL * LANES)         /* columns of a panel */
#define AT_ONCE (BYTES == 64 ? 6 : 4) /* rows that are sorted in at once: 6 x 2 or 4 x 2 registers */
#define LOWEST ((real)-1e30)         /* below every similarity */

INLINE real sum_of(const real *x, integer n) {
    vec sum = {0};
    integer i = 0;
    for (; i + LANES <= n; i += LANES) sum += load(x + i);
    real rest = total(sum);
    for (; i < n; i++) rest += x[i];
    return rest;
}

INLINE real squares_about(const real *x, integer n, real mean) {
    vec sum = {0};
    integer i = 0;
    for (; i + LANES <= n; i += LANES) sum += (load(x + i) - mean) * (load(x + i) - mean);
    real rest = total(sum);
    for (; i < n; i++) rest += (x[i] - mean) * (x[i] - mean);
    return rest;
}

INLINE real dot(const real *a, const real *b, integer n) {
    vec sum = {0};
    for (integer k = 0; k < n; k += LANES) sum += load(a + k) * load(b + k);
    return total(sum);
}

/* The standard deviation of similarities of two queries; writes their mean, and the sum of the squares of all. */
INLINE double spread_of(const real *h, integer side, integer n_support, integer n, double *mean, double *squares) {
    const integer n_query = n - n_support;
    const double pairs = (double)(n_query * (n_query - 1));
    double sum = 0, about = 0, own = 0;
    for (integer i = n_support; i < n; i++)
        sum += (double)(sum_of(h + i * side + n_support, n_query) - h[i * side + i]);
    *mean = sum / pairs;
    const real middle = (real)*mean;
    for (integer i = n_support; i < n; i++) {
        const real self = h[i * side + i];
        about += (double)(squares_about(h + i * side + n_support, n_query, middle) - (self - middle) * (self - middle));
        own += (double)(self * self);
    }
    *squares = own + about + (double)middle * (2 * sum - pairs * (double)middle);
    return sqrt(fmax(about, 0) / pairs);
}

/* The k largest of rows low.. of the columns of a panel, [k, WIDE], ascending. No item is compared with itself.
   Several rows go at once: memory that was just written is slow to read again. */
static void k_largest(const real *h, integer side, real *keys, integer low, integer start, integer stop, integer k) {
    for (integer t = 0; t < k * WIDE; t++) keys[t] = LOWEST;
    for (integer i = low; i < stop; i += AT_ONCE) {
        real rows[AT_ONCE * WIDE];
        vec x[AT_ONCE][PANEL];
        for (integer r = 0; r < AT_ONCE; r++) {
            memcpy(rows + r * WIDE, h + (i + r < stop ? i + r : i) * side + start, WIDE * sizeof(real));
            for (integer j = 0; j < WIDE; j++)
                if (i + r >= stop || i + r == start + j) rows[r * WIDE + j] = LOWEST;
        }
        UNROLL for (int r = 0; r < AT_ONCE; r++)
            UNROLL for (int v = 0; v < PANEL; v++) x[r][v] = load(rows + r * WIDE + v * LANES);
        for (integer t = k - 1; t >= 0; t--) /* what is larger stays in its row, what is smaller goes on */
            UNROLL for (int v = 0; v < PANEL; v++) {
                vec kept = load(keys + t * WIDE + v * LANES);
                UNROLL for (int r = 0; r < AT_ONCE; r++) {
                    const vec both = kept;
                    kept = larger(both, x[r][v]);
                    x[r][v] = smaller(both, x[r][v]);
                }
                store(keys + t * WIDE + v * LANES, kept);
            }
    }
}

/* A sparse matrix; every row begins with the item itself. */
typedef struct {
    real *weights;
    integer *rows, *first;
} Sparse;

/* The symmetric graph of each item's k nearest others, with weights max(similarity, 0). */
INLINE void make_graph(const real *h, integer side, real *kth, real *keys, real *line, Sparse a, real *degrees, integer n,
                       integer k) {
    integer count = 0;
    for (integer start = 0; start < n && k > 0; start += WIDE) {
        k_largest(h, side, keys, 0, start, n, k);
        memcpy(kth + start, keys, WIDE * sizeof(real));
    }
    for (integer i = 0; i < n; i++) {
        a.first[i] = count;
        a.weights[count] = 0;
        a.rows[count++] = i;
        degrees[i] = 0;
        if (k == 0) continue;
        const vec kth_of_item = fill(kth[i]), zero = {0};
        for (integer j = 0; j < n; j += LANES) { /* padding is cut off below */
            const vec similarity = load(h + i * side + j), w = larger(similarity, zero);
            store(line + j,
                  where_less(similarity, kth_of_item, zero, w) + where_less(similarity, load(kth + j), zero, w));
        }
        line[i] = 0;
        degrees[i] = sum_of(line, n);
        for (integer j = 0; j < n; j++) { /* without a branch: what is 0 is overwritten by the next */
            a.weights[count] = line[j];
            a.rows[count] = j;
            count += line[j] > 0;
        }
    }
    a.first[n] = count;
}

INLINE void gather_tile(Sparse a, integer i, const real *x, integer columns, real *out, const int vectors) {
    vec sums[COLS] = {{0}};
    for (integer t = a.first[i]; t < a.first[i + 1]; t++)
        UNROLL for (int v = 0; v < vectors; v++) sums[v] += load(x + a.rows[t] * columns + v * LANES) * a.weights[t];
    UNROLL for (int v = 0; v < vectors; v++) store(out + v * LANES, sums[v]);
}

/* The first `count` of row i of A x, for a matrix x of so many columns. */
static void gather(Sparse a, integer i, const real *x, integer columns, real *out, integer count) {
    integer d = 0;
    for (; d + COLS * LANES <= count; d += COLS * LANES) gather_tile(a, i, x + d, columns, out + d, COLS);
    for (; d < count; d += LANES) gather_tile(a, i, x + d, columns, out + d, 1);
}

/* What is below the diagonal, above it as well: exactly symmetric, so that an item may be read as row or column. */
INLINE void mirror(real *h, integer side, integer n) {
    for (integer i = 0; i < n; i++)
        for (integer j = 0; j < i; j++) h[j * side + i] = h[i * side + j];
}

/* H and E between the items from `first` on, in panels of columns; E may be NULL. Returns the sum of E. */
INLINE double make_panels(const real *h, integer side, real *h_panels, real *e_panels, integer first, integer n, real beta) {
    double sum = 0;
    for (integer low = 0; low < n; low += WIDE) {
        real *of_h = h_panels + low * n, *of_e = e_panels == NULL ? NULL : e_panels + low * n;
        const integer columns = WIDE < n - low ? WIDE : n - low;
        for (integer i = 0; i < n; i++)
            UNROLL for (int v = 0; v < PANEL; v++) {
                const vec similarity = load(h + (first + i) * side + first + low + v * LANES);
                store(of_h + i * WIDE + v * LANES, similarity);
                if (of_e != NULL) store(of_e + i * WIDE + v * LANES, exponential((similarity - 1) * beta));
            }
        for (integer v = 0; v < columns && of_e != NULL; v++) of_e[(low + v) * WIDE + v] = 0;
        for (integer i = 0; i < n && of_e != NULL; i++) sum += (double)sum_of(of_e + i * WIDE, columns);
    }
    return sum;
}

/* out = p M, for a matrix M between n items that is stored in panels; p is 0 after the first `count` items. Rows are
   multiplied `tile` at a time; whatever is beyond n_rows in the last tile may be anything. */
INLINE void product_tile(const real *panel, const real *p, real *out, integer width, integer count, const int tile) {
    vec sums[MAX_TILE][PANEL] = {{{0}}};
    for (integer j = 0; j < count; j++) {
        vec of_m[PANEL];
        UNROLL for (int v = 0; v < PANEL; v++) of_m[v] = load(panel + j * WIDE + v * LANES);
        UNROLL for (int r = 0; r < tile; r++)
            UNROLL for (int v = 0; v < PANEL; v++) sums[r][v] += of_m[v] * p[r * width + j];
    }
    UNROLL for (int r = 0; r < tile; r++)
        UNROLL for (int v = 0; v < PANEL; v++) store(out + r * width + v * LANES, sums[r][v]);
}

static void product_with(const real *panels, const real *p, real *out, integer n_rows, integer n, integer width,
                         integer count) {
    const integer tile = tile_of(n_rows);
    for (integer low = 0; low < width; low += WIDE)
        FOR_TILE(tile, for (integer i = 0; i < n_rows; i += TILE)
                           product_tile(panels + low * n, p + i * width, out + i * width + low, width, count, TILE))
}

/* exp(l) of a class, in place of the density: the root of the density times exp(beta cos / 2). What the examples add to
   both products is the same in every pass; `square` is the squared length of their sum. */
INLINE void class_odds(const real *p, real *toward, real *odds, const real *of_examples,
                       const real *density_of_examples, integer width, real square, real beta, int is_first,
                       double density_floor, double floor) {
    vec along = {0};
    for (integer j = 0; j < width; j += LANES) {
        const vec of_class = load(of_examples + j);
        vec both = of_class;
        if (!is_first) both += load(toward + j);
        along += load(p + j) * (both + of_class);
        store(toward + j, both);
    }
    const real sharpness = beta / (2 * root_of(most(square + total(along), (real)floor)));
    for (integer j = 0; j < width; j += LANES) {
        vec density = load(density_of_examples + j) + (real)density_floor;
        if (!is_first) density += load(odds + j);
        store(odds + j, root(density) * exponential(load(toward + j) * sharpness));
    }
}

typedef struct { /* the biases of several shares, or folds */
    integer ways, shares, width, n_query, columns; /* columns: shares, padded to whole vectors */
    real *weight, *inverse;                        /* exp(bias) [N + 1, columns]; of the sums over classes [shares, width] */
    const real *is_query;                          /* 1 or 0 [width] */
    double *share, *law;                           /* the target, and the usual pressure [shares] */
    double trust, max_class_weight, max_outlier_weight, floor;
} Held;

/* 1 / sum over classes of weight x odds, where an item counts, else 0. */
INLINE void totals(const Held *held, const real *odds, const real *weight, const real *counts, real *inverse) {
    const integer stride = held->shares * held->width;
    for (integer j = 0; j < held->width; j += LANES) {
        vec whole = load(odds + j) * weight[0];
        for (integer c = 1; c <= held->ways; c++) whole += load(odds + c * stride + j) * weight[c * held->columns];
        store(inverse + j, load(counts + j) / whole);
    }
}

/* `limited` of density.py, all shares at once. */
INLINE void limit(const Held *held) {
    const integer ways = held->ways;
    for (integer s = 0; s < held->shares; s += LANES) {
        vec scale = {0};
        for (integer c = 0; c < ways; c++) scale += logarithm(load(held->weight + c * held->columns + s));
        scale = exponential(scale * (-1 / (real)ways));
        for (integer c = 0; c <= ways; c++) {
            const real limit = (real)(c < ways ? held->max_class_weight : held->max_outlier_weight);
            real *of_class = held->weight + c * held->columns + s;
            store(of_class, smaller(larger(load(of_class) * scale, fill(1 / limit)), fill(limit)));
        }
    }
}

/* Turn the weights so often towards those by which the outputs have their shares; then draw them to the usual ones, as
   far as a small pile does not determine them. The odds of share s begin at s * of_share. */
static void hold(const Held *held, const real *odds, integer of_share, int turns) {
    const integer ways = held->ways, stride = held->shares * held->width;
    for (int turn = 0; turn < turns; turn++) {
        for (integer s = 0; s < held->shares; s++) {
            real *weight = held->weight + s, *inverse = held->inverse + s * held->width;
            totals(held, odds + s * of_share, weight, held->is_query, inverse);
            for (integer c = 0; c <= ways; c++) {
                const double target = c < ways ? (1 - held->share[s]) / (double)ways : held->share[s];
                const real mean = dot(odds + c * stride + s * of_share, inverse, held->width) *
                                  weight[c * held->columns] / (real)held->n_query;
                weight[c * held->columns] *= (real)target / most(mean, (real)held->floor);
            }
        }
        limit(held);
    }
    for (integer s = 0; s < held->shares && held->trust < 1; s++) {
        double sum = 0;
        for (integer c = 0; c < ways; c++) sum += (double)held->weight[c * held->columns + s];
        for (integer c = 0; c <= ways; c++) {
            real *weight = held->weight + c * held->columns + s;
            const double usual = c < ways ? -log((double)ways) : held->law[s];
            *weight = (real)exp(usual + held->trust * (log((double)*weight / sum) - usual));
        }
    }
}

/* P = softmax(l + bias) of free items (1 or 0 [width], those of share s at s * free_stride), added to what is fixed. */
static void posteriors(const Held *held, const real *odds, integer of_share, const real *is_free, integer free_stride,
                       const real *fixed, real *p) {
    const integer width = held->width, stride = held->shares * width;
    for (integer s = 0; s < held->shares; s++) {
        real *inverse = held->inverse + s * width;
        totals(held, odds + s * of_share, held->weight + s, is_free + s * free_stride, inverse);
        for (integer c = 0; c <= held->ways; c++)
            for (integer j = 0, to = c * stride + s * width; j < width; j += LANES, to += LANES) {
                const vec of_free = load(odds + c * stride + s * of_share + j) * load(inverse + j);
                store(p + to, of_free * held->weight[c * held->columns + s] + (fixed ? load(fixed + to) : fill(0)));
            }
    }
}
