/* The kernel of handful/engines/descent.py: one task at a time, with its features in the cache.

   Items z_i, prototypes c_j, scales eta_j and shifts delta_j, which begin as c_j = class means, eta_j = delta_j = 0:

       l_ij = tau (exp(eta_j) cos(z_i, c_j) + delta_j),   p = softmax(l, with an outlier logit if there is one)
       m_k  = w_k mean_Q p_ik
       loss = ce * -mean_S log p_iy - sum_k co_k mean_Q p_ik log p_ik + sum_k ma_k m_k log m_k
       A_ij = tau exp(eta_j) dL/dl_ij
       dL/d eta_j   = sum_i A_ij cos_ij
       dL/d delta_j = tau sum_i dL/dl_ij
       dL/d c_j     = (sum_i A_ij ^z_i - dL/d eta_j ^c_j) / |c_j|

   It is fast for four reasons. The features of a task are copied once into a padded, normalised block that fits the
   second-level cache, and each step reads them only twice (cosines, gradient). Logits are stored as [class, item], so
   that the softmax and its slopes run over items in vectors. Nothing is allocated inside the loop. Descents of the same
   tasks under several losses ("runs") go side by side: the features are read once for all of them. */

enum { NO_OUTLIER, CONSTANT, MINUS_MEAN };                          /* kinds of outlier logit */
enum { PROTOTYPES = 1, ETA = 2, DELTA = 4 };                        /* what is learned */
#define WIDTH (COLS * LANES)                                        /* features in a tile, and in a slab */
#define TRANSPOSED_BYTES (128 << 10) /* items up to this size are kept twice, as rows and as columns */

typedef struct { /* as `_descend_in_c` in descent.py writes them */
    integer batch, n_support, n_query, dimension, ways, runs, steps, kind, learn, refine;
} DescentSizes;
typedef struct {
    double temperature, learning_rate, beta1, beta2, epsilon, floor;
} DescentNumbers;
typedef struct { /* the loss of a run and task */
    real ce, constant;
    const real *co, *ma, *w;
} Loss;

/* One item at unit length into its places in the slabs; returns its length. */
INLINE real normalise(const real *item, integer dimension, real *row, real *x, integer i, integer n_items,
                      integer slabs, real floor) {
    memcpy(row, item, (size_t)dimension * sizeof(real));
    vec squares = {0};
    for (integer d = 0; d < slabs * WIDTH; d += LANES) squares += load(row + d) * load(row + d);
    real length = most(root_of(total(squares)), floor), inverse = 1 / length;
    for (integer d = 0; d < slabs * WIDTH; d += LANES)
        store(x + (d / WIDTH * n_items + i) * WIDTH + d % WIDTH, load(row + d) * inverse);
    return length;
}

INLINE real inverse_length(const real *v, integer n, real floor) {
    vec squares = {0};
    for (integer d = 0; d < n; d += LANES) squares += load(v + d) * load(v + d);
    return 1 / most(root_of(total(squares)), floor);
}

/* What the slopes need to know of each item: its class, its part in the means over queries and over examples. */
INLINE void weigh_items(const integer *labels, integer n_support, integer n_query, integer ways, integer m,
                        real *target, real *from_queries, real *from_example) {
    integer examples = 0; /* of the classes; those of no class weigh as `loss.example_weights` says */
    for (integer i = 0; i < n_support; i++) examples += labels[i] < ways;
    integer others = n_support - examples;
    real of_no_class = least(1, (real)examples / (real)(ways * (others > 1 ? others : 1)));
    real whole = (real)examples + of_no_class * (real)others;
    for (integer i = 0; i < n_support; i++) {
        target[labels[i] * m + i] = 1;
        from_example[i] = (labels[i] == ways ? of_no_class : 1) / whole;
    }
    for (integer i = n_support; i < n_support + n_query; i++) from_queries[i] = 1 / (real)n_query;
}

/* Products of all items with all prototypes, [rows, m]. With the items as columns [D, m] too, unless these are NULL, sums
   need not be taken across a vector. */
static void cosines(const real *x, const real *columns, integer slabs, const real *c, integer rows, integer m,
                    real *product, int tile) {
#define EACH_TILE(width, call) \
    for (integer i = 0; i < m; i += (width)) \
        for (integer j = 0; j < rows; j += TILE) call
    if (columns != NULL)
        FOR_TILE(tile, EACH_TILE(WIDTH, sum_tile(c, slabs * WIDTH, j, columns + i, m, product + i, m, TILE)))
    else
        FOR_TILE(tile, EACH_TILE(ROWS, dot_tile(x, WIDTH, slabs, i, c, j, product, m, TILE)))
}

/* Items summed with the weights a, [rows, D]. */
static void weighted_sums(const real *a, integer rows, integer m, const real *x, integer slabs, real *pull, int tile) {
    for (integer slab = 0; slab < slabs; slab++)
        FOR_TILE(tile, for (integer j = 0; j < rows; j += TILE) sum_tile(a, m, j, x + slab * m * WIDTH, WIDTH,
                                                                        pull + slab * WIDTH, slabs * WIDTH, TILE))
}

INLINE void write_outlier_logit(real *l, integer m, integer ways, integer kind, real constant) {
    real share = -1 / (real)ways;
    for (integer i = 0; i < m && kind != NO_OUTLIER; i += LANES) {
        vec mean = fill(constant);
        if (kind == MINUS_MEAN) {
            mean = load(l + i) * share;
            for (integer j = 1; j < ways; j++) mean += load(l + j * m + i) * share;
        }
        store(l + ways * m + i, mean);
    }
}

/* Logits [K, m] to probabilities p; log p takes the logits' place.
   Several short loops, in each of which the processor can work on many vectors at once, are faster than a long one. */
INLINE void softmax(real *l, real *p, real *scratch, integer outputs, integer m) {
    real *top = scratch, *inverse = scratch + m;
    for (integer i = 0; i < m; i += LANES) {
        vec largest = load(l + i);
        for (integer k = 1; k < outputs; k++) largest = larger(largest, load(l + k * m + i));
        store(top + i, largest);
    }
    for (integer k = 0; k < outputs; k++)
        for (integer i = 0; i < m; i += LANES) store(p + k * m + i, exponential(load(l + k * m + i) - load(top + i)));
    for (integer i = 0; i < m; i += LANES) {
        vec whole = load(p + i);
        for (integer k = 1; k < outputs; k++) whole += load(p + k * m + i);
        store(top + i, load(top + i) + logarithm(whole));
        store(inverse + i, 1 / whole);
    }
    for (integer k = 0; k < outputs; k++)
        for (integer i = 0; i < m; i += LANES) {
            store(p + k * m + i, load(p + k * m + i) * load(inverse + i));
            store(l + k * m + i, load(l + k * m + i) - load(top + i));
        }
}

/* What the marginal entropy adds to dL/dp of each query. */
INLINE void marginal_terms(const real *p, const real *from_queries, Loss loss, integer outputs, integer m, real floor,
                           real *marginal) {
    for (integer k = 0; k < outputs; k++) {
        vec mean = {0};
        for (integer i = 0; i < m; i += LANES) mean += load(p + k * m + i) * load(from_queries + i);
        real of_k = loss.w[k] * total(mean);
        marginal[k] = loss.ma[k] * loss.w[k] * (log_of(of_k + floor) + of_k / (of_k + floor));
    }
}

/* log p [K, m] in, dL/dlogits out in their place. Padding has no weight, so its slopes are 0. */
INLINE void slopes(real *l, const real *p, const real *target, const real *from_queries, const real *from_example,
                   const real *marginal, Loss loss, integer n_support, integer ways, integer outputs, integer kind,
                   integer m, real floor) {
    for (integer i = 0; i < m; i += LANES) {
        vec mixed = {0}; /* sum_k p_k dL/dp_k */
        for (integer k = 0; k < outputs; k++) {
            vec slope = marginal[k] - loss.co[k] - load(l + k * m + i) * loss.co[k]; /* Q dL/dp */
            store(l + k * m + i, slope);
            mixed += load(p + k * m + i) * slope;
        }
        vec part = load(from_queries + i);
        for (integer k = 0; k < outputs; k++)
            store(l + k * m + i, part * load(p + k * m + i) * (load(l + k * m + i) - mixed));
        if (i < n_support) {
            vec of_true = {0};
            for (integer k = 0; k < outputs; k++) of_true += load(p + k * m + i) * load(target + k * m + i);
            vec strength = load(from_example + i) * loss.ce * of_true / (of_true + floor);
            for (integer k = 0; k < outputs; k++)
                store(l + k * m + i,
                      load(l + k * m + i) + strength * (load(p + k * m + i) - load(target + k * m + i)));
        }
        if (kind == MINUS_MEAN) {
            vec shared = load(l + ways * m + i) * (1 / (real)ways);
            for (integer j = 0; j < ways; j++) store(l + j * m + i, load(l + j * m + i) - shared);
        }
    }
}

/* a = scale * slope; returns sum a product (dL/d eta times the prototype's length), and writes sum slope. */
INLINE real chain(const real *slope, const real *product, real scale, integer m, real *a, real *sum) {
    vec along = {0}, whole = {0};
    for (integer i = 0; i < m; i += LANES) {
        vec of_item = load(slope + i);
        whole += of_item;
        of_item *= scale;
        store(a + i, of_item);
        along += of_item * load(product + i);
    }
    *sum = total(whole);
    return total(along);
}

typedef struct { /* of a step of Adam (Kingma and Ba 2015) */
    real beta1, beta2, epsilon, rate, unbias;
} Adam;

INLINE vec adam_step(vec gradient, real *m, real *v, Adam adam) {
    vec first = load(m) * adam.beta1 + gradient * (1 - adam.beta1);
    vec second = load(v) * adam.beta2 + gradient * gradient * (1 - adam.beta2);
    store(m, first);
    store(v, second);
    return first * adam.rate / (root(second) * adam.unbias + adam.epsilon);
}

/* One step for a prototype, its gradient taken through the cosine; returns one over its new length. */
INLINE real move(real *c, const real *pull, real *m, real *v, integer dimension, real grad_eta, real inverse, Adam adam,
                 real floor) {
    vec squares = {0};
    real along = grad_eta * inverse;
    for (integer d = 0; d < dimension; d += LANES) {
        vec prototype = load(c + d), gradient = (load(pull + d) - prototype * along) * inverse;
        prototype -= adam_step(gradient, m + d, v + d, adam);
        store(c + d, prototype);
        squares += prototype * prototype;
    }
    return 1 / most(root_of(total(squares)), floor);
}

INLINE void move_all(real *parameter, const real *gradient, real *m, real *v, integer n, Adam adam) {
    for (integer d = 0; d < n; d += LANES)
        store(parameter + d, load(parameter + d) - adam_step(load(gradient + d), m + d, v + d, adam));
}

/* a = p |z|, because items are kept at unit length; returns sum p. */
INLINE real weigh(const real *p, const real *length, real *a, integer n_items) {
    real sum = 0;
    for (integer i = 0; i < n_items; i++) {
        a[i] = p[i] * length[i];
        sum += p[i];
    }
    return sum;
}

/* Rows of items [n, m] to columns of a result [m, n]. */
INLINE void write_columns(const real *rows, integer stride, integer n, integer m, real *to) {
    for (integer i = 0; i < m; i++)
        for (integer j = 0; j < n; j++) to[i * n + j] = rows[j * stride + i];
}

EXPORT int ENTRY(descend)(const DescentSizes *sizes, const DescentNumbers *numbers, const real *items,
                          const integer *labels, const real *constant, const real *ce, const real *co, const real *ma,
                          const real *w, real *out_c, real *out_eta, real *out_delta, real *out_support,
                          real *out_query, real *out_p, real *out_refined, real *out_refined_logits) {
    const integer n_support = sizes->n_support, n_query = sizes->n_query, dimension = sizes->dimension;
    const integer ways = sizes->ways, runs = sizes->runs, kind = sizes->kind, steps = sizes->steps;
    const integer n_items = n_support + n_query, outputs = ways + (kind != NO_OUTLIER);
    const integer slabs = (dimension + WIDTH - 1) / WIDTH, padded_d = slabs * WIDTH;
    const int is_transposed = n_items * padded_d * (integer)sizeof(real) <= TRANSPOSED_BYTES;
    const integer m = padded(n_items, is_transposed ? WIDTH : LANES > ROWS ? LANES : ROWS); /* items with padding */
    const int tile = (int)tile_of(ways);
    const integer padded_ways = padded(ways, tile), rows = runs * padded_ways; /* run r begins at r * padded_ways */
    const integer padded_rows = padded(rows, LANES);
    const real tau = (real)numbers->temperature, floor = (real)numbers->floor;

    Memory memory = {{0}, 0, 0};
    real *x = MATRIX(&memory, slabs * m, WIDTH), *columns = MATRIX(&memory, is_transposed ? padded_d : 0, m);
    real *c = MATRIX(&memory, rows, padded_d), *pull = MATRIX(&memory, rows, padded_d);
    real *c_m = MATRIX(&memory, rows, padded_d), *c_v = MATRIX(&memory, rows, padded_d);
    real *row = MATRIX(&memory, 1, padded_d);
    real *product = MATRIX(&memory, rows, m), *a = MATRIX(&memory, rows, m); /* with prototypes; weights of items */
    real *logits = MATRIX(&memory, outputs, m), *p = MATRIX(&memory, outputs, m), *scratch = MATRIX(&memory, 2, m);
    real *target = MATRIX(&memory, ways + 1, m), *length = MATRIX(&memory, 1, m);
    real *from_queries = MATRIX(&memory, 1, m), *from_example = MATRIX(&memory, 1, m);
    real *small = MATRIX(&memory, 10, padded_rows), *marginal = MATRIX(&memory, 1, outputs);
    if (memory.is_full) return free_all(&memory);
    real *inverse = small, *scale = small + padded_rows, *eta = small + 2 * padded_rows;
    real *delta = small + 3 * padded_rows, *grad_eta = small + 4 * padded_rows, *grad_delta = small + 5 * padded_rows;
    real *moments = small + 6 * padded_rows;

    for (integer b = 0; b < sizes->batch; b++) {
        const integer *of_labels = labels + b * n_support;
        memset(c, 0, (size_t)(rows * padded_d) * sizeof(real));
        memset(c_m, 0, (size_t)(rows * padded_d) * sizeof(real));
        memset(c_v, 0, (size_t)(rows * padded_d) * sizeof(real));
        memset(small, 0, (size_t)(10 * padded_rows) * sizeof(real));
        memset(target, 0, (size_t)((ways + 1) * m) * sizeof(real));
        for (integer i = 0; i < n_items; i++) {
            length[i] = normalise(items + (b * n_items + i) * dimension, dimension, row, x, i, m, slabs, floor);
            if (i < n_support && of_labels[i] < ways) /* else it is an example of no class */
                for (integer d = 0; d < padded_d; d += LANES)
                    store(c + of_labels[i] * padded_d + d, load(c + of_labels[i] * padded_d + d) + load(row + d));
        }
        for (integer j = 0; j < ways; j++) {
            integer shots = 0;
            for (integer i = 0; i < n_support; i++) shots += of_labels[i] == j;
            for (integer d = 0; d < padded_d; d++) c[j * padded_d + d] /= (real)shots;
            real of_class = inverse_length(c + j * padded_d, padded_d, floor);
            for (integer r = 0; r < runs; r++) {
                inverse[r * padded_ways + j] = of_class;
                if (r > 0)
                    memcpy(c + (r * padded_ways + j) * padded_d, c + j * padded_d, (size_t)padded_d * sizeof(real));
            }
        }
        for (integer d = 0; d < padded_d && is_transposed; d++)
            for (integer i = 0; i < m; i++) columns[d * m + i] = x[(d / WIDTH * m + i) * WIDTH + d % WIDTH];
        weigh_items(of_labels, n_support, n_query, ways, m, target, from_queries, from_example);

        for (integer step = 0; step < steps + 1 + sizes->refine; step++) {
            cosines(x, is_transposed ? columns : NULL, slabs, c, rows, m, product, tile);
            for (integer r = 0; r < runs; r++) {
                const integer first = r * padded_ways, rb = r * sizes->batch + b;
                const Loss loss = {ce[r], constant[rb], co + rb * outputs, ma + rb * outputs, w + rb * outputs};
                for (integer j = 0; j < ways; j++) {
                    scale[first + j] = tau * (real)exp((double)eta[first + j]);
                    const real factor = scale[first + j] * inverse[first + j], shift = tau * delta[first + j];
                    for (integer i = 0; i < m; i += LANES)
                        store(logits + j * m + i, load(product + (first + j) * m + i) * factor + shift);
                }
                if (step > steps) {
                    write_columns(logits + n_support, m, ways, n_query, out_refined_logits + rb * n_query * ways);
                    continue;
                }
                if (step == steps) {
                    memcpy(out_eta + rb * ways, eta + first, (size_t)ways * sizeof(real));
                    memcpy(out_delta + rb * ways, delta + first, (size_t)ways * sizeof(real));
                    for (integer j = 0; j < ways; j++)
                        memcpy(out_c + (rb * ways + j) * dimension, c + (first + j) * padded_d,
                               (size_t)dimension * sizeof(real));
                    write_columns(logits, m, ways, n_support, out_support + rb * n_support * ways);
                    write_columns(logits + n_support, m, ways, n_query, out_query + rb * n_query * ways);
                }
                write_outlier_logit(logits, m, ways, kind, loss.constant);
                softmax(logits, p, scratch, outputs, m);
                if (step < steps) {
                    marginal_terms(p, from_queries, loss, outputs, m, floor, marginal);
                    slopes(logits, p, target, from_queries, from_example, marginal, loss, n_support, ways, outputs,
                           kind, m, floor);
                    for (integer j = first; j < first + ways; j++) {
                        real sum, along = chain(logits + (j - first) * m, product + j * m, scale[j], m, a + j * m, &sum);
                        grad_eta[j] = along * inverse[j];
                        grad_delta[j] = tau * sum;
                    }
                    continue;
                }
                write_columns(p + n_support, m, outputs, n_query, out_p + rb * n_query * outputs);
                for (integer j = 0; j < ways; j++) { /* c' = sum p z / sum p, while the items are still in cache */
                    memset(a + (first + j) * m, 0, (size_t)m * sizeof(real));
                    grad_eta[first + j] = weigh(p + j * m, length, a + (first + j) * m, n_items);
                }
            }
            if (step == steps && sizes->refine) {
                weighted_sums(a, rows, m, x, slabs, c, tile);
                for (integer r = 0; r < runs; r++)
                    for (integer j = r * padded_ways; j < r * padded_ways + ways; j++) {
                        for (integer d = 0; d < padded_d; d++) c[j * padded_d + d] /= grad_eta[j];
                        inverse[j] = inverse_length(c + j * padded_d, padded_d, floor);
                        memcpy(out_refined + ((r * sizes->batch + b) * ways + j - r * padded_ways) * dimension,
                               c + j * padded_d, (size_t)dimension * sizeof(real));
                    }
            }
            if (step >= steps) continue;
            const Adam adam = {
                (real)numbers->beta1, (real)numbers->beta2, (real)numbers->epsilon,
                (real)(numbers->learning_rate / (1 - pow(numbers->beta1, (double)(step + 1)))),
                (real)(1 / sqrt(1 - pow(numbers->beta2, (double)(step + 1))))};
            if (sizes->learn & PROTOTYPES) {
                weighted_sums(a, rows, m, x, slabs, pull, tile);
                for (integer j = 0; j < rows; j++)
                    inverse[j] = move(c + j * padded_d, pull + j * padded_d, c_m + j * padded_d, c_v + j * padded_d,
                                      padded_d, grad_eta[j], inverse[j], adam, floor);
            }
            if (sizes->learn & ETA) move_all(eta, grad_eta, moments, moments + padded_rows, padded_rows, adam);
            if (sizes->learn & DELTA)
                move_all(delta, grad_delta, moments + 2 * padded_rows, moments + 3 * padded_rows, padded_rows, adam);
        }
    }
    return free_all(&memory);
}
