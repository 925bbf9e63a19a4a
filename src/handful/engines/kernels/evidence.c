/* The kernel of what handful/engines/evidence.py reads from whole matrices: one task at a time.

   With H the similarities of all items, the examples first, and W the graph of each item's nearest by H, of rows that sum
   to 1:

       walk     M <- 0.9 W M from the examples of each class, held
       links    the smallest similarity on the best path to an example of each class: along the largest spanning tree
       ridge    (H + I)^-1 applied to the examples of each class, by conjugate gradients */

typedef struct { /* as `_see_in_c` in evidence.py writes them */
    integer batch, n_support, n_query, ways, nearest, few, many, walk_steps, ridge_steps;
} EvidenceSizes;
typedef struct {
    double walk_factor, min_spread, floor;
} EvidenceNumbers;

/* The mass of each class [n, columns] after the steps; `next` receives what one more step brings. */
INLINE void walk(Sparse graph, const real *seeds, real *mass, real *next, integer n_support, integer n, integer columns,
                 real factor, integer steps) {
    const size_t of_examples = (size_t)(n_support * columns) * sizeof(real);
    memset(mass, 0, (size_t)(n * columns) * sizeof(real));
    memcpy(mass, seeds, of_examples);
    for (integer step = 0; step <= steps; step++) {
        if (step > 0) {
            memcpy(mass, next, (size_t)(n * columns) * sizeof(real));
            memcpy(mass, seeds, of_examples);
        }
        for (integer i = 0; i < n; i++) gather(graph, i, mass, columns, next + i * columns, columns);
        for (integer i = 0; i < n * columns; i += LANES) store(next + i, load(next + i) * factor);
    }
}

/* The largest spanning tree (Prim): items in the order in which they join, to which item, and by what similarity. */
INLINE void spanning_tree(const real *h, integer side, integer n, real *near, real *parent, real *is_in, integer *order,
                          integer *above, real *edge) {
    for (integer j = 0; j < side; j++) {
        near[j] = LOWEST;
        is_in[j] = j < n ? 0 : LOWEST; /* added to a similarity, it keeps an item from joining again */
    }
    for (integer t = 1, item = 0; t < n; t++) {
        vec best = fill(LOWEST), place = {0};
        near[item] = is_in[item] = LOWEST;
        for (integer j = 0; j < side; j += LANES) {
            const vec before = load(near + j), value = load(h + item * side + j) + load(is_in + j);
            const vec now = where_less(before, value, value, before);
            store(parent + j, where_less(before, value, fill((real)item), load(parent + j)));
            store(near + j, now);
            place = where_less(best, now, fill((real)j), place);
            best = where_less(best, now, now, best);
        }
        real tops[LANES], places[LANES];
        store(tops, best);
        store(places, place);
        integer lane = 0;
        for (integer k = 1; k < LANES; k++) lane = tops[k] > tops[lane] ? k : lane;
        item = order[t] = (integer)places[lane] + lane;
        above[t] = (integer)parent[item];
        edge[t] = tops[lane];
    }
}

/* What links one item to each class links another one as well, along an edge of the tree. */
INLINE void hand_on(real *links, integer to, integer from, real edge, integer columns) {
    for (integer c = 0; c < columns; c += LANES) {
        real *link = links + to * columns + c;
        store(link, larger(load(link), smaller(load(links + from * columns + c), fill(edge))));
    }
}

/* Rows x, r and direction [N, width]; the products of H with the result are left in `image`. */
INLINE void conjugate_gradients(const real *h_panels, real *x, real *r, real *direction, real *image, integer ways,
                                integer n, integer width, integer steps, real floor) {
    memset(x, 0, (size_t)(ways * width) * sizeof(real));
    memcpy(direction, r, (size_t)(ways * width) * sizeof(real));
    for (integer step = 0; step < steps; step++) {
        product_with(h_panels, direction, image, ways, n, width, n);
        for (integer row = 0; row < ways * width; row += width) {
            const real square = dot(r + row, r + row, width);
            const real curvature = dot(direction + row, image + row, width) + dot(direction + row, direction + row, width);
            const real length = square / most(curvature, floor);
            for (integer j = row; j < row + width; j += LANES) {
                store(x + j, load(x + j) + load(direction + j) * length);
                store(r + j, load(r + j) - (load(image + j) + load(direction + j)) * length);
            }
            const real turn = dot(r + row, r + row, width) / most(square, floor);
            for (integer j = row; j < row + width; j += LANES)
                store(direction + j, load(r + j) + load(direction + j) * turn);
        }
    }
    product_with(h_panels, x, image, ways, n, width, n);
}

EXPORT int ENTRY(look)(const EvidenceSizes *sizes, const EvidenceNumbers *numbers, const real *h, const integer *codes,
                       const real *odds, real *out_mass, real *out_links, real *out_ridge, real *out_items,
                       double *out_mean, double *out_spread) {
    const integer n_support = sizes->n_support, n_query = sizes->n_query, n = n_support + n_query, ways = sizes->ways;
    const integer width = padded(n, WIDE), columns = padded(ways, LANES), rows = ways + MAX_TILE;
    const integer many = sizes->many, side = n_support + padded(n_query, WIDE) > width ? width + WIDE : width;
    const integer most_keys = many > sizes->nearest ? many : sizes->nearest;

    Memory memory = {{0}, 0, 0};
    real *all = MATRIX(&memory, n, side), *h_panels = MATRIX(&memory, width, n), *keys = MATRIX(&memory, most_keys, WIDE);
    real *line = MATRIX(&memory, 1, side), *kth = MATRIX(&memory, 1, side), *degrees = MATRIX(&memory, 1, n);
    Sparse graph = {MATRIX(&memory, n, n + 1), zeros(&memory, n * (n + 1) * 8), zeros(&memory, (n + 1) * 8)};
    real *seeds = MATRIX(&memory, n_support, columns), *mass = MATRIX(&memory, n, columns);
    real *next = MATRIX(&memory, n, columns), *edge = MATRIX(&memory, 1, n), *is_in = MATRIX(&memory, 1, side);
    integer *order = zeros(&memory, n * 8), *above = zeros(&memory, n * 8);
    real *x = MATRIX(&memory, rows, width), *r = MATRIX(&memory, rows, width);
    real *direction = MATRIX(&memory, rows, width), *image = MATRIX(&memory, rows, width);
    if (memory.is_full) return free_all(&memory);
    for (integer b = 0; b < sizes->batch; b++) {
        const integer *of_codes = codes + b * n_support;
        real *of_walk = out_items + b * 5 * n_query, *neighbours = of_walk + n_query, *of_few = neighbours + n_query;
        real *of_many = of_few + n_query, *score = of_many + n_query;
        for (integer i = 0; i < n; i++) {
            memcpy(all + i * side, h + (b * n + i) * n, (size_t)n * sizeof(real));
            for (integer j = 0; j < i; j++) all[i * side + j] = all[j * side + i]; /* the graph compares h_ij with h_ji */
        }
        double squares;
        out_spread[b] = fmax(spread_of(all, side, n_support, n, out_mean + b, &squares), numbers->min_spread);

        memset(seeds, 0, (size_t)(n_support * columns) * sizeof(real));
        memset(r, 0, (size_t)(ways * width) * sizeof(real));
        for (integer i = 0; i < n_support; i++) {
            integer shots = 0;
            for (integer j = 0; j < n_support; j++) shots += of_codes[j] == of_codes[i];
            if (of_codes[i] == ways) continue;
            seeds[i * columns + of_codes[i]] = r[of_codes[i] * width + i] = 1 / (real)shots;
        }
        make_graph(all, side, kth, keys, line, graph, degrees, n, sizes->nearest);
        for (integer i = 0; i < n; i++)
            for (integer t = graph.first[i]; t < graph.first[i + 1]; t++)
                graph.weights[t] /= most(degrees[i], (real)numbers->floor);
        walk(graph, seeds, mass, next, n_support, n, columns, (real)numbers->walk_factor, sizes->walk_steps);
        for (integer i = 0; i < n_query; i++) {
            const real *of_item = next + (n_support + i) * columns;
            of_walk[i] = of_item[0];
            for (integer c = 1; c < ways; c++) of_walk[i] = most(of_walk[i], of_item[c]);
            neighbours[i] = 0;
            for (integer t = graph.first[n_support + i]; t < graph.first[n_support + i + 1]; t++)
                neighbours[i] += graph.weights[t] * odds[b * n + graph.rows[t]];
        }
        for (integer start = n_support; start < n; start += WIDE) {
            k_largest(all, side, keys, n_support, start, n, many);
            for (integer v = 0; v < WIDE && start + v < n; v++) {
                const integer i = start - n_support + v;
                of_few[i] = of_many[i] = 0;
                for (integer t = many - 1; t >= 0; t--) {
                    of_many[i] += keys[t * WIDE + v] / (real)many;
                    if (t >= many - sizes->few) of_few[i] += keys[t * WIDE + v] / (real)least(sizes->few, many);
                }
            }
        }
        real *links = next; /* not needed any more */
        spanning_tree(all, side, n, kth, line, is_in, order, above, edge);
        for (integer i = 0; i < n; i++)
            for (integer c = 0; c < columns; c++) links[i * columns + c] = i < n_support && of_codes[i] == c ? 1 : -1;
        for (integer t = n - 1; t > 0; t--) hand_on(links, above[t], order[t], edge[t], columns);
        for (integer t = 1; t < n; t++) hand_on(links, order[t], above[t], edge[t], columns);
        for (integer i = 0; i < n; i++) {
            memcpy(out_mass + (b * n + i) * ways, mass + i * columns, (size_t)ways * sizeof(real));
            memcpy(out_links + (b * n + i) * ways, links + i * columns, (size_t)ways * sizeof(real));
        }
        make_panels(all, side, h_panels, NULL, 0, n, 0);
        conjugate_gradients(h_panels, x, r, direction, image, ways, n, width, sizes->ridge_steps, (real)numbers->floor);
        write_columns(x, width, ways, n, out_ridge + b * n * ways);
        for (integer i = 0; i < n_query; i++) {
            score[i] = image[n_support + i];
            for (integer c = 1; c < ways; c++) score[i] = most(score[i], image[c * width + n_support + i]);
        }
    }
    return free_all(&memory);
}
