/* The kernel of handful/engines/hidden.py: one task at a time, its folds side by side.

   In each pass, in every fold, with the weights P of the shown examples fixed and those of all other items free:

       l_ik = 1/2 [beta cos(i, sum_j P_jk y_j) + log sum_j E_ij P_jk],   l_out = log(sum_j E_ij P_j,out + 5 e0)
       bias += log target - log mean over queries of softmax(l + bias),   P_free = softmax(l + bias) */

typedef struct { /* as `_folds_in_c` in hidden.py writes them */
    integer batch, n_support, n_query, ways, folds, passes;
} HiddenSizes;
typedef struct {
    double trust, outlier_floor, max_class_weight, max_outlier_weight, density_floor, floor;
} HiddenNumbers;

EXPORT int ENTRY(hide)(const HiddenSizes *sizes, const HiddenNumbers *numbers, const real *h, const double *beta,
                       const double *e0, const double *share, const double *usual, const real *weights,
                       const real *is_hidden, real *out_p) {
    const integer n_support = sizes->n_support, n_query = sizes->n_query, n = n_support + n_query;
    const integer ways = sizes->ways, outputs = ways + 1, folds = sizes->folds, width = padded(n, WIDE);
    const integer columns = padded(folds, LANES), n_rows = outputs * folds + MAX_TILE, stride = folds * width;

    Memory memory = {{0}, 0, 0};
    real *padded_h = MATRIX(&memory, n, width), *nothing = MATRIX(&memory, 1, width);
    real *h_panels = MATRIX(&memory, width, n), *e_panels = MATRIX(&memory, width, n);
    real *fixed = MATRIX(&memory, n_rows, width), *p = MATRIX(&memory, n_rows, width);
    real *toward = MATRIX(&memory, n_rows, width), *odds = MATRIX(&memory, n_rows, width);
    real *is_query = MATRIX(&memory, 1, width), *is_free = MATRIX(&memory, folds, width);
    const Held held = {ways, folds, width, n_query, columns, MATRIX(&memory, outputs, columns),
                       MATRIX(&memory, folds, width), is_query, zeros(&memory, folds * 8), zeros(&memory, folds * 8),
                       numbers->trust, numbers->max_class_weight, numbers->max_outlier_weight, numbers->floor};
    if (memory.is_full) return free_all(&memory);
    for (integer j = n_support; j < n; j++) is_query[j] = 1;

    for (integer b = 0; b < sizes->batch; b++) {
        for (integer i = 0; i < n; i++) memcpy(padded_h + i * width, h + (b * n + i) * n, (size_t)n * sizeof(real));
        make_panels(padded_h, width, h_panels, e_panels, 0, n, (real)beta[b]);
        for (integer f = 0; f < folds; f++) {
            memcpy(is_free + f * width, is_query, (size_t)width * sizeof(real));
            memcpy(is_free + f * width, is_hidden + (b * folds + f) * n_support, (size_t)n_support * sizeof(real));
            for (integer c = 0; c < outputs; c++)
                memcpy(fixed + c * stride + f * width, weights + ((b * folds + f) * outputs + c) * n_support,
                       (size_t)n_support * sizeof(real));
            held.share[f] = share[b];
            held.law[f] = usual[b];
        }
        memcpy(p, fixed, (size_t)(n_rows * width) * sizeof(real));
        for (integer i = 0; i < outputs * columns; i++) held.weight[i] = 1;
        for (integer pass = 0; pass < sizes->passes; pass++) {
            const integer count = pass == 0 ? n_support : n; /* at first the queries have no weight */
            const int is_last = pass == sizes->passes - 1;
            product_with(h_panels, p, toward, ways * folds, n, width, count);
            product_with(e_panels, p, odds, outputs * folds, n, width, count);
            for (integer r = 0; r < ways * folds; r++)
                class_odds(p + r * width, toward + r * width, odds + r * width, nothing, nothing, width, 0,
                           (real)beta[b], 0, numbers->density_floor, numbers->floor);
            for (integer j = ways * stride; j < outputs * stride; j += LANES)
                store(odds + j, load(odds + j) + (real)(numbers->outlier_floor * e0[b]));
            hold(&held, odds, width, pass < 2 || is_last ? 10 : 2);
            posteriors(&held, odds, width, is_free, width, fixed, p);
        }
        for (integer f = 0; f < folds; f++)
            for (integer c = 0; c < outputs; c++)
                memcpy(out_p + ((b * folds + f) * outputs + c) * n, p + c * stride + f * width, (size_t)n * sizeof(real));
    }
    return free_all(&memory);
}
