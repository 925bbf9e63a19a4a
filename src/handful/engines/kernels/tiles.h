/* Products of matrices whose sums live in registers.

   The products of a step of a descent are tall and thin: [M, D] features with about N = 5 prototypes. A BLAS packs and
   blocks for large square products and loses most of its speed here. A tile of ROWS items (or COLS vectors of features)
   and a few prototypes keeps ROWS x `tile` running sums in registers, and each value loaded from the cache is used
   `tile` or ROWS times. Callers pad matrices: items to ROWS, features to COLS vectors, prototypes to `tile`, so that no
   tile has an edge. `tile` is a constant where a tile is inlined: see FOR_TILE.

   Items x may be stored in slabs: [slabs * M, width], where the rows of a slab hold `width` of the features of all
   items. Both products then read memory nearly in order, and touch few pages. One slab is an ordinary matrix. */

#define COLS ROWS
#define MAX_TILE 6 /* prototypes that are multiplied with at once: 4 x 6 sums, 4 loads and a spare fit 32 registers */
#define FOR_TILE(tile, ...)                         \
    switch (tile) {                                 \
    case 1: { enum { TILE = 1 }; __VA_ARGS__; break; }     \
    case 2: { enum { TILE = 2 }; __VA_ARGS__; break; }     \
    case 3: { enum { TILE = 3 }; __VA_ARGS__; break; }     \
    case 4: { enum { TILE = 4 }; __VA_ARGS__; break; }     \
    case 5: { enum { TILE = 5 }; __VA_ARGS__; break; }     \
    default: { enum { TILE = 6 }; __VA_ARGS__; }           \
    }

/* How many of so many prototypes are multiplied with at once: in the fewest tiles, and then with the least padding. */
INLINE integer tile_of(integer rows) {
    const integer tiles = padded(rows, MAX_TILE) / MAX_TILE;
    return (rows + tiles - 1) / tiles;
}

/* out[j : j + tile, i : i + ROWS] = c[j : j + tile] x[i : i + ROWS]^T, with n columns of out, the items of a slab. */
INLINE void dot_tile(const real *x, integer width, integer slabs, integer i, const real *c, integer j, real *out,
                     integer n, const int tile) {
    vec sums[MAX_TILE][ROWS] = {{{0}}};
    for (integer slab = 0; slab < slabs; slab++) {
        const real *of_x = x + (slab * n + i) * width, *of_c = c + j * slabs * width + slab * width;
        for (integer d = 0; d < width; d += LANES)
            UNROLL for (int r = 0; r < ROWS; r++) {
                vec item = load(of_x + r * width + d);
                UNROLL for (int k = 0; k < tile; k++) sums[k][r] += item * load(of_c + k * slabs * width + d);
            }
    }
    UNROLL for (int k = 0; k < tile; k++) write_totals(sums[k], out + (j + k) * n + i);
}

/* out[j : j + tile, 0 : COLS vectors] = a[j : j + tile, :m] x[:m, 0 : COLS vectors]; x and out have these strides. */
INLINE void sum_tile(const real *a, integer m, integer j, const real *x, integer x_stride, real *out,
                     integer out_stride, const int tile) {
    vec sums[MAX_TILE][COLS] = {{{0}}};
    for (integer i = 0; i < m; i++) {
        vec of_x[COLS];
        UNROLL for (int v = 0; v < COLS; v++) of_x[v] = load(x + i * x_stride + v * LANES);
        UNROLL for (int k = 0; k < tile; k++) {
            real weight = a[(j + k) * m + i];
            UNROLL for (int v = 0; v < COLS; v++) sums[k][v] += of_x[v] * weight;
        }
    }
    UNROLL for (int k = 0; k < tile; k++)
        UNROLL for (int v = 0; v < COLS; v++) store(out + (j + k) * out_stride + v * LANES, sums[k][v]);
}

/* Memory of a call, freed at its end. */
#define MAX_BLOCKS 40
typedef struct {
    void *blocks[MAX_BLOCKS];
    int count, is_full;
} Memory;

/* Zeros that begin on a vector's boundary: a load across two cache lines costs two. */
static void *zeros(Memory *memory, integer bytes) {
    char *block = calloc(1, (size_t)bytes + BYTES);
    if (block == NULL) {
        memory->is_full = 1;
        return NULL;
    }
    memory->blocks[memory->count++] = block;
    return block + BYTES - (uintptr_t)block % BYTES;
}
#define MATRIX(memory, rows, columns) zeros(memory, (integer)sizeof(real) * (rows) * (columns))

/* Free it; whether there was too little of it. */
static int free_all(Memory *memory) {
    while (memory->count > 0) free(memory->blocks[--memory->count]);
    return memory->is_full;
}
