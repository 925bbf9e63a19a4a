/* The kernel of handful/engines/neighbours.py, density.py and of what share_statistics.py reads from whole matrices: one
   task at a time, with its matrices in the cache.

   With x the prepared items of a task (the support first) and S the graph of each item's k nearest others:

       y = L2(x + S x / 2),   H = y y^T
       beta = 12 sqrt(0.18 / standard deviation of H over pairs of queries)
       E_ij = exp(beta (H_ij - 1)), E_ii = 0;   e0 = mean E over pairs of queries

   and in each pass, at each share g of outliers, from the weights P of the items:

       l_ik  = 1/2 [beta cos(i, sum_j P_jk y_j) + log sum_j E_ij P_jk],   l_out = log(sum_j E_ij P_j,out + 5 e0)
       bias += log target - log mean_i softmax(l + bias),   P_query = softmax(l + bias)

   It is fast for these reasons.
   - With A the sparse matrix of the smoothing, y = A x, so that H = A (x x^T) A^T: one dense product in place of two, of
     which only half is computed, because it is symmetric.
   - Rows are sorted by a sorting network, as many at once as a vector has lanes, without a branch.
   - At first P_query = 0, so the first pass is the same at every share. What the examples add to the products is the
     same in every pass. Outliers have no prototype, so their row of the product with H is not computed.
   - exp(l) of a class is the root of its density times exp(beta cos / 2), so no pass computes the logarithm of a density.
   - Rows of logits are [class, share], with items innermost and padded to whole vectors. Nothing is allocated in a loop. */

#define PANEL 2                      /* vectors of columns: a panel of a task's matrices fits the first-level cache */
#define WIDE (PANEL * LANES)         /* columns of a panel */
#define HEIGHT (BYTES == 64 ? 8 : 4) /* rows of a tile: 8 x 2 sums fit 32 registers, 4 x 2 fit 16 */
#define BLOCK_ROWS 48                /* items that stay in the second-level cache while all others pass by */
#define LOWEST ((real)-1e30)         /* sorts before every similarity */

typedef struct { /* as `run_kernel` in share_statistics.py writes them */
    integer batch, n_support, n_query, dimension, ways, k, shares, passes;
} DensitySizes;
typedef struct {
    double trust, usual_beta, usual_spread, min_spread, outlier_floor, nearest_queries, max_class_weight,
        max_outlier_weight, density_floor, floor;
} DensityNumbers;

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

/* x x^T [side, side]: tiles on and above the diagonal, mirrored. */
INLINE void similarities(const real *items, integer dimension, real *g, integer n, integer side) {
    for (integer low = 0; low < n; low += BLOCK_ROWS) {
        const integer high = low + BLOCK_ROWS < n ? low + BLOCK_ROWS : n;
        for (integer i = 0; i < high; i += ROWS)
            for (integer j = i > low ? i : low; j < high; j += ROWS)
                dot_tile(items, dimension, 1, j, items, i, g, side, ROWS);
    }
    for (integer i = 0; i < n; i++)
        for (integer j = 0; j < i; j++) g[i * side + j] = g[j * side + i];
}

/* Put the smaller of keys[i] and keys[j] into row i and the larger into row j, lane by lane; values follow their keys. */
INLINE void exchange(real *keys, real *values, integer i, integer j) {
    UNROLL for (int v = 0; v < PANEL; v++) {
        real *low = keys + i * WIDE + v * LANES, *high = keys + j * WIDE + v * LANES;
        const vec a = load(low), b = load(high);
        store(low, smaller(a, b));
        store(high, larger(a, b));
        if (values != NULL) {
            real *of_low = values + i * WIDE + v * LANES, *of_high = values + j * WIDE + v * LANES;
            const vec of_a = load(of_low), of_b = load(of_high);
            store(of_low, where_less(a, b, of_a, of_b));
            store(of_high, where_less(a, b, of_b, of_a));
        }
    }
}

/* Sort the first n rows in each lane: Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2 M). */
static void sort(real *keys, real *values, integer n) {
    integer half = 1;
    while (2 * half < n) half *= 2;
    for (integer p = half; p > 0; p /= 2)
        for (integer q = half, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (integer start = r; start < n - d; start += 2 * p)
                for (integer i = start; i < (start + p < n - d ? start + p : n - d); i++) exchange(keys, values, i, i + d);
            if (q == p) break;
        }
}

/* Columns start.. of h, from row low to row stop, a column in each lane; the diagonal becomes LOWEST. */
INLINE void load_lanes(const real *h, integer side, real *keys, integer low, integer start, integer stop) {
    for (integer i = low; i < stop; i++) memcpy(keys + (i - low) * WIDE, h + i * side + start, WIDE * sizeof(real));
    for (integer v = 0; v < WIDE && v < stop - start; v++)
        if (start + v >= low) keys[(start + v - low) * WIDE + v] = LOWEST;
}

/* The k-th largest similarity of each item to another one. */
INLINE void kth_largest(const real *g, integer side, real *kth, real *keys, integer n, integer k) {
    for (integer start = 0; start < n && k > 0; start += WIDE) {
        load_lanes(g, side, keys, 0, start, n);
        sort(keys, NULL, n);
        memcpy(kth + start, keys + (n - k) * WIDE, WIDE * sizeof(real));
    }
}

/* The sparse rows of A = I + S / 2, with S the normalised graph; every row begins with the item itself. */
typedef struct {
    real *weights;
    integer *rows, *first;
} Sparse;

INLINE void make_graph(const real *g, integer side, const real *kth, real *line, real *factor, Sparse a, real *degrees,
                       integer n, integer k, real floor) {
    integer count = 0;
    for (integer i = 0; i < n; i++) {
        a.first[i] = count;
        a.weights[count] = 1;
        a.rows[count++] = i;
        degrees[i] = 0;
        if (k > 0) {
            const vec kth_of_item = fill(kth[i]), zero = {0};
            for (integer j = 0; j < n; j += LANES) { /* padding is cut off below */
                const vec similarity = load(g + i * side + j), w = larger(similarity, zero);
                store(line + j, where_less(similarity, kth_of_item, zero, w) +
                                    where_less(similarity, load(kth + j), zero, w));
            }
            line[i] = 0;
            degrees[i] = sum_of(line, n);
            for (integer j = 0; j < n; j++) { /* without a branch: what is 0 is overwritten by the next */
                a.weights[count] = line[j];
                a.rows[count] = j;
                count += line[j] > 0;
            }
        }
        factor[i] = 1 / root_of(most(degrees[i], floor));
    }
    a.first[n] = count;
    for (integer i = 0; i < n; i++)
        for (integer t = a.first[i] + 1; t < a.first[i + 1]; t++) a.weights[t] *= factor[i] * factor[a.rows[t]] / 2;
}

/* Row i of A x, for a matrix x of so many columns. */
static void gather(Sparse a, integer i, const real *x, integer columns, real *out) {
    for (integer d = 0; d < columns; d += COLS * LANES) {
        vec sums[COLS] = {{0}};
        for (integer t = a.first[i]; t < a.first[i + 1]; t++) {
            const real *row = x + a.rows[t] * columns + d;
            UNROLL for (int v = 0; v < COLS; v++) sums[v] += load(row + v * LANES) * a.weights[t];
        }
        UNROLL for (int v = 0; v < COLS; v++) store(out + d + v * LANES, sums[v]);
    }
}

/* H in place of G = x x^T: A G A^T, and both sides divided by the lengths of A x; factor receives 1 / lengths. */
INLINE void smooth_similarities(real *g, real *t, integer side, Sparse a, real *factor, integer n, real floor) {
    for (integer i = 0; i < n; i++) gather(a, i, g, side, t + i * side);
    for (integer i = 0; i < n; i++)
        for (integer j = 0; j < i; j++) {
            const real other = t[i * side + j];
            t[i * side + j] = t[j * side + i];
            t[j * side + i] = other;
        }
    for (integer i = 0; i < n; i++) gather(a, i, t, side, g + i * side);
    for (integer i = 0; i < n; i++) factor[i] = 1 / most(root_of(most(g[i * side + i], 0)), floor);
    for (integer i = 0; i < n; i++)
        for (integer j = 0; j < side; j += LANES)
            store(g + i * side + j, load(g + i * side + j) * load(factor + j) * factor[i]);
}

/* The standard deviation of similarities of two queries, and the sum of squares with those of a query to itself. */
INLINE double spread_of(const real *h, integer side, integer n_support, integer n, double *squares) {
    const integer n_query = n - n_support;
    const double pairs = (double)(n_query * (n_query - 1));
    double sum = 0, about = 0, own = 0;
    for (integer i = n_support; i < n; i++)
        sum += (double)(sum_of(h + i * side + n_support, n_query) - h[i * side + i]);
    const real mean = (real)(sum / pairs);
    for (integer i = n_support; i < n; i++) {
        const real self = h[i * side + i];
        about += (double)(squares_about(h + i * side + n_support, n_query, mean) - (self - mean) * (self - mean));
        own += (double)(self * self);
    }
    *squares = own + about + (double)mean * (2 * sum - pairs * (double)mean);
    return sqrt(fmax(about, 0) / pairs);
}

/* H and E between queries, in panels of columns; returns e0. */
INLINE double make_panels(const real *h, integer side, real *h_panels, real *e_panels, integer n_support,
                          integer n_query, integer width, real beta, double floor) {
    double sum = 0;
    for (integer low = 0; low < width; low += WIDE) {
        real *of_h = h_panels + low * n_query, *of_e = e_panels + low * n_query;
        const integer columns = WIDE < n_query - low ? WIDE : n_query - low;
        for (integer i = 0; i < n_query; i++)
            UNROLL for (int v = 0; v < PANEL; v++) {
                const vec similarity = load(h + (n_support + i) * side + n_support + low + v * LANES);
                store(of_h + i * WIDE + v * LANES, similarity);
                store(of_e + i * WIDE + v * LANES, exponential((similarity - 1) * beta));
            }
        for (integer v = 0; v < columns; v++) of_e[(low + v) * WIDE + v] = 0;
        for (integer i = 0; i < n_query; i++) sum += (double)sum_of(of_e + i * WIDE, columns);
    }
    return fmax(sum / (double)(n_query * (n_query - 1)), floor);
}

/* The mean similarity of a query to the best of N others; writes e10. */
INLINE double best_of_queries(const real *h, integer side, real *keys, real *best, const real *draws,
                              integer n_support, integer n, real beta, integer nearest, double *e10) {
    const integer n_query = n - n_support, n_others = n_query - 1;
    double usual = 0;
    *e10 = 0;
    if (nearest > n_others) nearest = n_others;
    for (integer start = n_support; start < n; start += WIDE) {
        const integer columns = WIDE < n - start ? WIDE : n - start;
        load_lanes(h, side, keys, n_support, start, n);
        sort(keys, NULL, n_query);
        UNROLL for (int v = 0; v < PANEL; v++) {
            vec sum = {0};
            for (integer i = 0; i < n_others; i++) sum += load(keys + (i + 1) * WIDE + v * LANES) * draws[i];
            store(best + v * LANES, sum);
        }
        usual += (double)sum_of(best, columns);
        for (integer i = n_query - nearest; i < n_query; i++) {
            UNROLL for (int v = 0; v < PANEL; v++)
                store(best + v * LANES, exponential((load(keys + i * WIDE + v * LANES) - 1) * beta));
            *e10 += (double)sum_of(best, columns);
        }
    }
    *e10 /= (double)(n_query * nearest);
    return usual / (double)n_query;
}

/* The mean over queries of the expected largest similarity to one random example of each class. */
INLINE double best_of_examples(const real *h, integer side, real *keys, real *values, real *lines,
                               const integer *codes, const real *class_shares, integer n_support, integer n,
                               integer ways) {
    real *before = lines, *expected = lines + WIDE, *parts = lines + 2 * WIDE;
    double sum = 0;
    for (integer start = n_support; start < n; start += WIDE) {
        for (integer i = 0; i < n_support; i++)
            for (integer v = 0; v < WIDE; v++) {
                keys[i * WIDE + v] = h[i * side + start + v];
                values[i * WIDE + v] = (real)codes[i];
            }
        sort(keys, values, n_support);
        memset(lines, 0, (size_t)((ways + 2) * WIDE) * sizeof(real));
        for (integer i = 0; i < n_support; i++)
            UNROLL for (int v = 0; v < PANEL; v++) {
                const vec code = load(values + i * WIDE + v * LANES), zero = {0};
                vec now = fill(1); /* P(no drawn example is more similar than this one) */
                for (integer c = 0; c < ways; c++) {
                    real *of_class = parts + c * WIDE + v * LANES;
                    const vec is_class = where_less(magnitude(code - (real)c), fill((real)0.5), fill(class_shares[c]), zero);
                    store(of_class, load(of_class) + is_class);
                    now *= load(of_class);
                }
                real *last = before + v * LANES, *so_far = expected + v * LANES;
                store(so_far, load(so_far) + load(keys + i * WIDE + v * LANES) * (now - load(last)));
                store(last, now);
            }
        sum += (double)sum_of(expected, WIDE < n - start ? WIDE : n - start);
    }
    return sum / (double)(n - n_support);
}

/* Per class: the weight of an example, the squared length of their weighted sum, and its products with the queries.
   Returns the number of examples of the classes. `best` receives each query's cosine to its best class. */
INLINE integer example_sums(const real *h, integer side, const integer *codes, integer n_support, integer n_query,
                            integer ways, integer width, real beta, real *weight, real *square, real *of_h, real *of_e,
                            real *best, double floor) {
    integer n_examples = 0;
    memset(of_h, 0, (size_t)((ways + 1) * width) * sizeof(real));
    memset(of_e, 0, (size_t)((ways + 1) * width) * sizeof(real));
    for (integer c = 0; c <= ways; c++) {
        integer shots = 0;
        double sum = 0;
        for (integer s = 0; s < n_support; s++) {
            if (codes[s] != c) continue;
            shots++;
            for (integer j = 0; j < width; j += LANES) {
                const vec similarity = load(h + s * side + n_support + j);
                store(of_h + c * width + j, load(of_h + c * width + j) + similarity);
                store(of_e + c * width + j, load(of_e + c * width + j) + exponential((similarity - 1) * beta));
            }
            for (integer other = 0; other < n_support; other++)
                if (codes[other] == c) sum += (double)h[s * side + other];
        }
        weight[c] = 2 + 4 / (real)(shots > 1 ? shots : 1);
        square[c] = (real)((double)(weight[c] * weight[c]) * sum);
        if (c < ways) {
            n_examples += shots;
            const real length = 1 / root_of((real)fmax(sum, floor));
            for (integer j = 0; j < n_query; j++) {
                const real cosine = of_h[c * width + j] * length;
                best[j] = c == 0 ? cosine : most(best[j], cosine);
            }
        }
        for (integer j = 0; j < width; j++) {
            of_h[c * width + j] *= weight[c];
            of_e[c * width + j] *= weight[c];
        }
    }
    return n_examples;
}

/* out = p M, for a matrix M between queries that is stored in panels. */
static void product_with(const real *panels, const real *p, real *out, integer n_rows, integer n_query, integer width) {
    for (integer low = 0; low < width; low += WIDE)
        for (integer i = 0; i < n_rows; i += HEIGHT) {
            vec sums[HEIGHT][PANEL] = {{{0}}};
            for (integer j = 0; j < n_query; j++) {
                vec of_m[PANEL];
                UNROLL for (int v = 0; v < PANEL; v++) of_m[v] = load(panels + (low * n_query + j * WIDE) + v * LANES);
                UNROLL for (int r = 0; r < HEIGHT; r++)
                    UNROLL for (int v = 0; v < PANEL; v++) sums[r][v] += of_m[v] * p[(i + r) * width + j];
            }
            UNROLL for (int r = 0; r < HEIGHT; r++)
                UNROLL for (int v = 0; v < PANEL; v++) store(out + (i + r) * width + low + v * LANES, sums[r][v]);
        }
}

/* exp(l) of a class, in place of the density: the root of the density times exp(beta cos / 2). */
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

/* 1 / sum over classes of weight x odds, for each query; 0 beyond the queries. */
INLINE void totals(const real *odds, integer stride, const real *weight, integer shares, integer outputs, integer width,
                   const real *is_query, real *inverse) {
    for (integer j = 0; j < width; j += LANES) {
        vec whole = load(odds + j) * weight[0];
        for (integer c = 1; c < outputs; c++) whole += load(odds + c * stride + j) * weight[c * shares];
        store(inverse + j, load(is_query + j) / whole);
    }
}

INLINE real dot(const real *a, const real *b, integer n) {
    vec sum = {0};
    for (integer k = 0; k < n; k += LANES) sum += load(a + k) * load(b + k);
    return total(sum);
}

/* `_limited` of density.py, all shares at once; rows of the weights are whole vectors. */
INLINE void limit(real *weight, integer ways, integer shares, real max_class, real max_outlier) {
    for (integer s = 0; s < shares; s += LANES) {
        vec scale = {0};
        for (integer c = 0; c < ways; c++) scale += logarithm(load(weight + c * shares + s));
        scale = exponential(scale * (-1 / (real)ways));
        for (integer c = 0; c <= ways; c++) {
            const real limit = c < ways ? max_class : max_outlier;
            real *of_class = weight + c * shares + s;
            store(of_class, smaller(larger(load(of_class) * scale, fill(1 / limit)), fill(limit)));
        }
    }
}

/* Draw the biases of a share towards the usual ones, as far as a small pile does not determine them. */
INLINE void draw_to_usual(real *weight, integer shares, integer ways, double trust, double law) {
    double sum = 0;
    for (integer c = 0; c < ways; c++) sum += (double)weight[c * shares];
    for (integer c = 0; c <= ways; c++) {
        const double usual = c < ways ? -log((double)ways) : law;
        weight[c * shares] = (real)exp(usual + trust * (log((double)weight[c * shares] / sum) - usual));
    }
}

/* The sum of the entropies of coins of these biases. */
INLINE double entropy_of(const real *p, integer n, real floor) {
    double sum = 0;
    for (integer j = 0; j < n; j += LANES) {
        const vec is = load(p + j), is_not = 1 - is;
        vec part = is * logarithm(larger(is, fill(floor))) + is_not * logarithm(larger(is_not, fill(floor)));
        for (integer v = 0; v < LANES && j + v < n; v++) sum -= (double)part[v];
    }
    return sum;
}

EXPORT int ENTRY(density)(const DensitySizes *sizes, const DensityNumbers *numbers, const real *x, const integer *codes,
                          const double *shares, const real *draws, real *out_smooth, real *out_degrees, real *out_p,
                          real *out_probabilities, real *out_bias, real *out_examples, real *out_best,
                          double *out_entropy, double *out_excess, double *out_numbers) {
    const integer n_support = sizes->n_support, n_query = sizes->n_query, n = n_support + n_query;
    const integer dimension = sizes->dimension, ways = sizes->ways, outputs = ways + 1, n_shares = sizes->shares;
    const integer width = padded(n_query, WIDE), unit = WIDE > COLS * LANES ? WIDE : COLS * LANES;
    const integer side = padded(n_support + width, unit), padded_d = padded(dimension, COLS * LANES);
    const integer columns = padded(n_shares, LANES), n_rows = padded(outputs * n_shares, HEIGHT);
    const double density_floor = numbers->density_floor, floor = numbers->floor;

    Memory memory = {{0}, 0, 0};
    real *items = MATRIX(&memory, side, padded_d), *g = MATRIX(&memory, side, side), *t = MATRIX(&memory, side, side);
    real *keys = MATRIX(&memory, side, WIDE), *values = MATRIX(&memory, n_support, WIDE);
    real *line = MATRIX(&memory, 1, side > padded_d ? side : padded_d);
    real *lines = MATRIX(&memory, ways + 2, WIDE), *factor = MATRIX(&memory, 1, side), *kth = MATRIX(&memory, 1, side);
    Sparse a = {MATRIX(&memory, n, n + 1), zeros(&memory, n * (n + 1) * 8), zeros(&memory, (n + 1) * 8)};
    real *h_panels = MATRIX(&memory, width, n_query), *e_panels = MATRIX(&memory, width, n_query);
    real *p = MATRIX(&memory, n_rows, width), *toward = MATRIX(&memory, n_rows, width);
    real *odds = MATRIX(&memory, n_rows, width), *inverse = MATRIX(&memory, n_shares, width);
    real *of_examples = MATRIX(&memory, outputs, width); /* what the examples add to the products with H and with E */
    real *density_of_examples = MATRIX(&memory, outputs, width), *is_query = MATRIX(&memory, 1, width);
    real *weight = MATRIX(&memory, outputs, columns), *class_shares = MATRIX(&memory, 1, ways);
    real *class_weight = MATRIX(&memory, 1, outputs), *class_square = MATRIX(&memory, 1, outputs);
    double *law = zeros(&memory, n_shares * 8);
    if (memory.is_full) {
        free_all(&memory);
        return 1;
    }
    for (integer j = 0; j < n_query; j++) is_query[j] = 1;

    for (integer b = 0; b < sizes->batch; b++) {
        const integer *of_codes = codes + b * n_support;
        for (integer i = 0; i < n; i++)
            memcpy(items + i * padded_d, x + (b * n + i) * dimension, (size_t)dimension * sizeof(real));
        similarities(items, padded_d, g, n, side);
        kth_largest(g, side, kth, keys, n, sizes->k);
        make_graph(g, side, kth, line, factor, a, out_degrees + b * n, n, sizes->k, (real)floor);
        smooth_similarities(g, t, side, a, factor, n, (real)floor);
        for (integer i = 0; i < n; i++) {
            gather(a, i, items, padded_d, line);
            for (integer d = 0; d < dimension; d++) out_smooth[(b * n + i) * dimension + d] = line[d] * factor[i];
        }
        const real *h = g;

        double squares, e10;
        const double spread = fmax(spread_of(h, side, n_support, n, &squares), numbers->min_spread);
        const real beta = (real)(numbers->usual_beta * sqrt(numbers->usual_spread / spread));
        const double e0 = make_panels(h, side, h_panels, e_panels, n_support, n_query, width, beta, density_floor);
        const double usual = best_of_queries(h, side, keys, lines, draws, n_support, n, beta,
                                             (integer)numbers->nearest_queries, &e10);
        const integer n_examples =
            example_sums(h, side, of_codes, n_support, n_query, ways, width, beta, class_weight, class_square,
                         of_examples, density_of_examples, out_best + b * n_query, floor);
        for (integer c = 0; c < ways; c++) class_shares[c] = (class_weight[c] - 2) / 4; /* of one example in its class */
        const double best =
            best_of_examples(h, side, keys, values, lines, of_codes, class_shares, n_support, n, ways);
        const double measured[] = {(double)beta, e0, spread, squares, (best - usual) / spread};
        memcpy(out_numbers + b * 5, measured, sizeof(measured));
        for (integer i = 0; i < n_support; i++)
            memcpy(out_examples + (b * n_support + i) * n_support, h + i * side, (size_t)n_support * sizeof(real));
        for (integer s = 0; s < n_shares; s++) {
            const double share = shares[b * n_shares + s];
            const double members = (1 - share) * (double)n_query / (double)ways + 2. * (double)n_examples / (double)ways + 4;
            law[s] = log(share / (1 - share)) + log(members * fmax(e10, density_floor)) / 2 -
                     log((share * (double)n_query + numbers->outlier_floor) * e0) + 5.2 * share * (1 - share) - 0.5;
        }

        const real outlier_floor = (real)(numbers->outlier_floor * e0);
        memset(p, 0, (size_t)(n_rows * width) * sizeof(real));
        for (integer pass = 0; pass < sizes->passes; pass++) {
            const integer stride = n_shares * width;
            const int is_first = pass == 0, is_last = pass == sizes->passes - 1;
            if (!is_first) {
                product_with(h_panels, p, toward, ways * n_shares, n_query, width);
                product_with(e_panels, p, odds, outputs * n_shares, n_query, width);
            }
            for (integer s = 0; s < (is_first ? 1 : n_shares); s++) { /* at first all shares are alike */
                for (integer c = 0; c < ways; c++) {
                    const integer r = c * stride + s * width;
                    class_odds(p + r, toward + r, odds + r, of_examples + c * width, density_of_examples + c * width,
                               width, class_square[c], beta, is_first, density_floor, floor);
                }
                real *of_outliers = odds + ways * stride + s * width;
                for (integer j = 0; j < width; j += LANES) {
                    vec density = load(density_of_examples + ways * width + j) + outlier_floor;
                    if (!is_first) density += load(of_outliers + j);
                    store(of_outliers + j, density);
                }
            }
            if (pass < 2)
                for (integer i = 0; i < outputs * columns; i++) weight[i] = 1;
            for (int turn = 0; turn < (pass < 2 || is_last ? 10 : 1); turn++) {
                for (integer s = 0; s < n_shares; s++) {
                    const real *of_share = odds + (is_first ? 0 : s * width);
                    const double share = shares[b * n_shares + s];
                    totals(of_share, stride, weight + s, columns, outputs, width, is_query, inverse + s * width);
                    for (integer c = 0; c < outputs; c++) {
                        const real target = (real)(c < ways ? (1 - share) / (double)ways : share);
                        const real mean = dot(of_share + c * stride, inverse + s * width, width) *
                                          weight[c * columns + s] / (real)n_query;
                        weight[c * columns + s] *= target / most(mean, (real)floor);
                    }
                }
                limit(weight, ways, columns, (real)numbers->max_class_weight, (real)numbers->max_outlier_weight);
            }
            if (numbers->trust < 1)
                for (integer s = 0; s < n_shares; s++) draw_to_usual(weight + s, columns, ways, numbers->trust, law[s]);
            if (is_last) /* P that the logits were computed from: the fixed weights of the examples, then the queries */
                for (integer s = 0; s < n_shares; s++)
                    for (integer c = 0; c < outputs; c++) {
                        real *to = out_p + ((b * n_shares + s) * outputs + c) * n;
                        for (integer i = 0; i < n_support; i++) to[i] = of_codes[i] == c ? class_weight[c] : 0;
                        memcpy(to + n_support, p + c * stride + s * width, (size_t)n_query * sizeof(real));
                    }
            for (integer s = 0; s < n_shares; s++) {
                const real *of_share = odds + (is_first ? 0 : s * width);
                totals(of_share, stride, weight + s, columns, outputs, width, is_query, inverse + s * width);
                for (integer c = 0; c < outputs; c++)
                    for (integer j = 0; j < width; j += LANES)
                        store(p + c * stride + s * width + j, load(of_share + c * stride + j) *
                                                                  load(inverse + s * width + j) * weight[c * columns + s]);
            }
        }
        for (integer s = 0; s < n_shares; s++) {
            const integer bs = b * n_shares + s;
            double of_classes = 0;
            for (integer c = 0; c < outputs; c++) {
                if (c < ways) of_classes += (double)weight[c * columns + s];
                out_bias[bs * outputs + c] = log_of(weight[c * columns + s]);
                memcpy(out_probabilities + (bs * outputs + c) * n_query, p + (c * n_shares + s) * width,
                       (size_t)n_query * sizeof(real));
            }
            out_excess[bs] = log((double)weight[ways * columns + s] / of_classes) - law[s];
            out_entropy[bs] =
                entropy_of(p + (ways * n_shares + s) * width, n_query, (real)density_floor) / (double)n_query;
        }
    }
    free_all(&memory);
    return 0;
}
