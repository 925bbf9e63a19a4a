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
   - Columns are sorted by a sorting network, as many at once as a vector has lanes, without a branch.
   - At first P_query = 0, so the first pass is the same at every share. What the examples add to the products is the
     same in every pass. Outliers have no prototype, so their row of the product with H is not computed.
   - exp(l) of a class is the root of its density times exp(beta cos / 2), so no pass computes the logarithm of a density.
   - Nothing is allocated in a loop. */

#define BLOCK_ROWS 48 /* items that stay in the second-level cache while all others pass by */

typedef struct { /* as `_solve_in_c` in share.py writes them */
    integer batch, n_support, n_query, dimension, ways, k, shares, passes, measures;
} DensitySizes;
typedef struct {
    double trust, usual_beta, usual_spread, min_spread, outlier_floor, nearest_queries, max_class_weight,
        max_outlier_weight, density_floor, floor;
} DensityNumbers;

/* x x^T [side, side]: tiles on and below the diagonal, mirrored. */
INLINE void similarities(const real *items, integer dimension, real *g, integer n, integer side) {
    for (integer low = 0; low < n; low += BLOCK_ROWS) {
        const integer high = low + BLOCK_ROWS < n ? low + BLOCK_ROWS : n;
        for (integer i = 0; i < high; i += ROWS)
            for (integer j = i > low ? i : low; j < high; j += ROWS)
                dot_tile(items, dimension, 1, i, items, j, g, side, ROWS);
    }
    mirror(g, side, n);
}

/* Put the smaller of keys[i] and keys[j] into row i and the larger into row j, lane by lane. */
INLINE void exchange(real *keys, integer i, integer j) {
    UNROLL for (int v = 0; v < PANEL; v++) {
        real *low = keys + i * WIDE + v * LANES, *high = keys + j * WIDE + v * LANES;
        const vec a = load(low), b = load(high);
        store(low, smaller(a, b));
        store(high, larger(a, b));
    }
}

/* Sort the first n rows in each lane: Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2 M). */
static void sort(real *keys, integer n) {
    integer half = 1;
    while (2 * half < n) half *= 2;
    for (integer p = half; p > 0; p /= 2)
        for (integer q = half, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (integer start = r; start < n - d; start += 2 * p)
                for (integer i = start; i < (start + p < n - d ? start + p : n - d); i++) exchange(keys, i, i + d);
            if (q == p) break;
        }
}

/* The graph becomes A = I + S / 2, with S the normalised graph. */
INLINE void smoothing_of(Sparse a, const real *degrees, real *factor, integer n, real floor) {
    for (integer i = 0; i < n; i++) factor[i] = 1 / root_of(most(degrees[i], floor));
    for (integer i = 0; i < n; i++) {
        a.weights[a.first[i]] = 1;
        for (integer t = a.first[i] + 1; t < a.first[i + 1]; t++) a.weights[t] *= factor[i] * factor[a.rows[t]] / 2;
    }
}

/* H in place of G = x x^T: A G A^T, and both sides divided by the lengths of A x; factor receives 1 / lengths. */
INLINE void smooth_similarities(real *g, real *t, integer side, Sparse a, real *factor, integer n, real floor) {
    for (integer i = 0; i < n; i++) gather(a, i, g, side, t + i * side, side);
    for (integer i = 0; i < n; i++)
        for (integer j = 0; j < i; j++) {
            const real other = t[i * side + j];
            t[i * side + j] = t[j * side + i];
            t[j * side + i] = other;
        }
    for (integer i = 0; i < n; i++) gather(a, i, t, side, g + i * side, padded(i + 1, LANES));
    for (integer i = 0; i < n; i++) factor[i] = 1 / most(root_of(most(g[i * side + i], 0)), floor);
    for (integer i = 0; i < n; i++)
        for (integer j = 0; j <= i; j += LANES)
            store(g + i * side + j, load(g + i * side + j) * load(factor + j) * factor[i]);
    mirror(g, side, n);
}

/* Column by column of H between queries: the mean E of a query to its nearest others. */
INLINE double nearest_kernel(const real *h, integer side, real *keys, integer n_support, integer n, real beta,
                             integer nearest) {
    double sum = 0;
    if (nearest > n - n_support - 1) nearest = n - n_support - 1;
    for (integer start = n_support; start < n; start += WIDE) {
        k_largest(h, side, keys, n_support, start, n, nearest);
        for (integer i = 0; i < nearest; i++) {
            UNROLL for (int v = 0; v < PANEL; v++) {
                real *of_item = keys + i * WIDE + v * LANES;
                store(of_item, exponential((load(of_item) - 1) * beta));
            }
            sum += (double)sum_of(keys + i * WIDE, WIDE < n - start ? WIDE : n - start);
        }
    }
    return sum / (double)((n - n_support) * nearest);
}

/* The mean similarity of a query to the best of N others. */
INLINE double best_of_queries(const real *h, integer side, real *keys, real *best, const real *draws,
                              integer n_support, integer n) {
    const integer n_query = n - n_support;
    double usual = 0;
    for (integer start = n_support; start < n; start += WIDE) {
        for (integer i = n_support; i < n; i++) {
            real *row = keys + (i - n_support) * WIDE;
            memcpy(row, h + i * side + start, WIDE * sizeof(real));
            if (i >= start && i < start + WIDE) row[i - start] = LOWEST;
        }
        sort(keys, n_query);
        UNROLL for (int v = 0; v < PANEL; v++) {
            vec sum = {0};
            for (integer i = 1; i < n_query; i++) sum += load(keys + i * WIDE + v * LANES) * draws[i - 1];
            store(best + v * LANES, sum);
        }
        usual += (double)sum_of(best, WIDE < n - start ? WIDE : n - start);
    }
    return usual / (double)n_query;
}

/* The mean over queries of the expected largest similarity to one random example of each class: an example is the largest
   if the examples that are drawn of all other classes are below it. */
INLINE double best_of_examples(const real *h, integer side, real *below, const integer *codes,
                               const real *class_shares, integer n_support, integer n, integer ways) {
    double sum = 0;
    for (integer start = n_support; start < n; start += LANES) {
        vec expected = {0};
        for (integer i = 0; i < n_support; i++) {
            if (codes[i] == ways) continue;
            const vec of_example = load(h + i * side + start), zero = {0};
            vec chance = fill(class_shares[codes[i]]);
            for (integer c = 0; c < ways; c++) store(below + c * LANES, c == codes[i] ? fill(1) : zero);
            for (integer j = 0; j < n_support; j++) {
                if (codes[j] == ways || codes[j] == codes[i]) continue;
                const vec other = load(h + j * side + start), part = fill(class_shares[codes[j]]);
                const vec is_below = j < i ? where_less(of_example, other, zero, part) /* of two that are equal, the first */
                                           : where_less(other, of_example, part, zero);
                store(below + codes[j] * LANES, load(below + codes[j] * LANES) + is_below);
            }
            for (integer c = 0; c < ways; c++) chance *= load(below + c * LANES);
            expected += of_example * chance;
        }
        real line[LANES];
        store(line, expected);
        sum += (double)sum_of(line, LANES < n - start ? LANES : n - start);
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
                          const double *shares, const real *draws, real *out_smooth, real *out_degrees, real *out_h,
                          real *out_p, real *out_probabilities, real *out_bias, real *out_best, double *out_entropy,
                          double *out_excess, double *out_numbers) {
    const integer n_support = sizes->n_support, n_query = sizes->n_query, n = n_support + n_query;
    const integer dimension = sizes->dimension, ways = sizes->ways, outputs = ways + 1, n_shares = sizes->shares;
    const integer width = padded(n_query, WIDE), unit = WIDE > COLS * LANES ? WIDE : COLS * LANES;
    const integer side = padded(n_support + width, unit), padded_d = padded(dimension, COLS * LANES);
    const integer columns = padded(n_shares, LANES), n_rows = outputs * n_shares + MAX_TILE;
    const integer stride = n_shares * width;
    const double density_floor = numbers->density_floor, floor = numbers->floor;

    Memory memory = {{0}, 0, 0};
    real *items = MATRIX(&memory, side, padded_d), *g = MATRIX(&memory, side, side), *t = MATRIX(&memory, side, side);
    real *keys = MATRIX(&memory, side, WIDE);
    real *line = MATRIX(&memory, 1, side > padded_d ? side : padded_d);
    real *lines = MATRIX(&memory, ways, WIDE), *factor = MATRIX(&memory, 1, side), *kth = MATRIX(&memory, 1, side);
    Sparse a = {MATRIX(&memory, n, n + 1), zeros(&memory, n * (n + 1) * 8), zeros(&memory, (n + 1) * 8)};
    real *h_panels = MATRIX(&memory, width, n_query), *e_panels = MATRIX(&memory, width, n_query);
    real *p = MATRIX(&memory, n_rows, width), *toward = MATRIX(&memory, n_rows, width);
    real *odds = MATRIX(&memory, n_rows, width), *is_query = MATRIX(&memory, 1, width);
    real *of_examples = MATRIX(&memory, outputs, width); /* what the examples add to the products with H and with E */
    real *density_of_examples = MATRIX(&memory, outputs, width), *class_shares = MATRIX(&memory, 1, ways);
    real *class_weight = MATRIX(&memory, 1, outputs), *class_square = MATRIX(&memory, 1, outputs);
    double *law = zeros(&memory, n_shares * 8), *share = zeros(&memory, n_shares * 8);
    const Held held = {ways, n_shares, width, n_query, columns, MATRIX(&memory, outputs, columns),
                       MATRIX(&memory, n_shares, width), is_query, share, law, numbers->trust,
                       numbers->max_class_weight, numbers->max_outlier_weight, floor};
    if (memory.is_full) return free_all(&memory);
    for (integer j = 0; j < n_query; j++) is_query[j] = 1;

    for (integer b = 0; b < sizes->batch; b++) {
        const integer *of_codes = codes + b * n_support;
        for (integer i = 0; i < n; i++)
            memcpy(items + i * padded_d, x + (b * n + i) * dimension, (size_t)dimension * sizeof(real));
        similarities(items, padded_d, g, n, side);
        make_graph(g, side, kth, keys, line, a, out_degrees + b * n, n, sizes->k);
        smoothing_of(a, out_degrees + b * n, factor, n, (real)floor);
        smooth_similarities(g, t, side, a, factor, n, (real)floor);
        for (integer i = 0; i < n; i++) {
            gather(a, i, items, padded_d, line, padded_d);
            for (integer d = 0; d < dimension; d++) out_smooth[(b * n + i) * dimension + d] = line[d] * factor[i];
            memcpy(out_h + (b * n + i) * n, g + i * side, (size_t)n * sizeof(real));
        }
        const real *h = g;

        double squares, mean, best = 0;
        const double spread = fmax(spread_of(h, side, n_support, n, &mean, &squares), numbers->min_spread);
        const real beta = (real)(numbers->usual_beta * sqrt(numbers->usual_spread / spread));
        const double pairs = (double)(n_query * (n_query - 1));
        const double e0 = fmax(make_panels(h, side, h_panels, e_panels, n_support, n_query, beta) / pairs, density_floor);
        const double e10 = nearest_kernel(h, side, keys, n_support, n, beta, (integer)numbers->nearest_queries);
        const integer n_examples =
            example_sums(h, side, of_codes, n_support, n_query, ways, width, beta, class_weight, class_square,
                         of_examples, density_of_examples, out_best + b * n_query, floor);
        if (sizes->measures) {
            for (integer c = 0; c < ways; c++) class_shares[c] = (class_weight[c] - 2) / 4; /* of one example */
            best = best_of_examples(h, side, lines, of_codes, class_shares, n_support, n, ways) -
                   best_of_queries(h, side, keys, lines, draws, n_support, n);
        }
        const double measured[] = {(double)beta, e0, spread, squares, best / spread};
        memcpy(out_numbers + b * 5, measured, sizeof(measured));
        for (integer s = 0; s < n_shares; s++) {
            const double g_s = share[s] = shares[b * n_shares + s];
            const double members = (1 - g_s) * (double)n_query / (double)ways + 2. * (double)n_examples / (double)ways + 4;
            law[s] = log(g_s / (1 - g_s)) + log(members * fmax(e10, density_floor)) / 2 -
                     log((g_s * (double)n_query + numbers->outlier_floor) * e0) + 5.2 * g_s * (1 - g_s) - 0.5;
        }

        const real outlier_floor = (real)(numbers->outlier_floor * e0);
        memset(p, 0, (size_t)(n_rows * width) * sizeof(real));
        for (integer pass = 0; pass < sizes->passes; pass++) {
            const int is_first = pass == 0, is_last = pass == sizes->passes - 1;
            const integer of_share = is_first ? 0 : width; /* at first all shares are alike */
            if (!is_first) {
                product_with(h_panels, p, toward, ways * n_shares, n_query, width, n_query);
                product_with(e_panels, p, odds, outputs * n_shares, n_query, width, n_query);
            }
            for (integer s = 0; s < (is_first ? 1 : n_shares); s++) {
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
            for (integer i = 0; i < outputs * columns && pass < 2; i++) held.weight[i] = 1;
            hold(&held, odds, of_share, pass < 2 || is_last ? 10 : 1);
            if (is_last) /* P that the logits were computed from: the fixed weights of the examples, then the queries */
                for (integer s = 0; s < n_shares; s++)
                    for (integer c = 0; c < outputs; c++) {
                        real *to = out_p + ((b * n_shares + s) * outputs + c) * n;
                        for (integer i = 0; i < n_support; i++) to[i] = of_codes[i] == c ? class_weight[c] : 0;
                        memcpy(to + n_support, p + c * stride + s * width, (size_t)n_query * sizeof(real));
                    }
            posteriors(&held, odds, of_share, is_query, 0, NULL, p);
        }
        for (integer s = 0; s < n_shares; s++) {
            const integer bs = b * n_shares + s;
            double of_classes = 0;
            for (integer c = 0; c < outputs; c++) {
                if (c < ways) of_classes += (double)held.weight[c * columns + s];
                out_bias[bs * outputs + c] = log_of(held.weight[c * columns + s]);
                memcpy(out_probabilities + (bs * outputs + c) * n_query, p + (c * n_shares + s) * width,
                       (size_t)n_query * sizeof(real));
            }
            if (!sizes->measures) continue;
            out_excess[bs] = log((double)held.weight[ways * columns + s] / of_classes) - law[s];
            out_entropy[bs] = entropy_of(p + ways * stride + s * width, n_query, (real)density_floor) / (double)n_query;
        }
    }
    return free_all(&memory);
}
