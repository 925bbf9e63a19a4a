/* Vectors of the processor, by the vector types of GCC and Clang, and the functions of them that the kernels need.

   The files are compiled once for each type of numbers (REAL is float or double) and for each level of the processor
   (LEVEL). Matrices that a kernel makes for itself begin on a vector's boundary and have rows of whole vectors.
   `exponential`, `logarithm` and `power` are polynomials in single precision, and the maths library's in double. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef REAL real;
typedef int64_t integer;

#define JOIN(name, type, level) name##_##type##_##level
#define JOINED(name, type, level) JOIN(name, type, level)
#define ENTRY(name) JOINED(name, REAL, LEVEL) /* as in descend_float_v3 */
#define IS_SINGLE (sizeof(real) == sizeof(float))
#define INLINE static inline __attribute__((always_inline))
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__) /* BYTES of a vector, and ROWS: as many sums as registers can hold, see tiles.h */
#define BYTES 64
#define ROWS 4
#elif defined(__AVX__)
#define BYTES 32
#define ROWS 2
#elif defined(__x86_64__)
#define BYTES 16
#define ROWS 2
#else
#define BYTES 16
#define ROWS 4
#endif
#define LANES ((integer)(BYTES / sizeof(real)))

typedef real vec __attribute__((vector_size(BYTES), may_alias));
typedef real loose __attribute__((vector_size(BYTES), may_alias, aligned(sizeof(real))));
typedef real vec32 __attribute__((vector_size(32), may_alias));
typedef real vec16 __attribute__((vector_size(16), may_alias));
typedef float floats __attribute__((vector_size(BYTES), may_alias));
typedef int32_t bits __attribute__((vector_size(BYTES), may_alias)); /* of floats */

INLINE vec load(const real *from) { return *(const loose *)from; }
INLINE void store(real *to, vec x) { *(loose *)to = x; }
INLINE vec fill(real x) { return x - (vec){0}; }
INLINE real least(real a, real b) { return a < b ? a : b; }
INLINE real most(real a, real b) { return a > b ? a : b; }
INLINE integer padded(integer n, integer unit) { return (n + unit - 1) / unit * unit; }

/* Returns the value of an expression of each lane k: for what vector types have no operator for. */
#define EACH_LANE(expression)                                           \
    vec result = {0};                                                   \
    UNROLL for (int k = 0; k < LANES; k++) result[k] = (expression);    \
    return result

INLINE vec larger(vec a, vec b) { EACH_LANE(a[k] > b[k] ? a[k] : b[k]); }
INLINE vec smaller(vec a, vec b) { EACH_LANE(a[k] < b[k] ? a[k] : b[k]); }
INLINE vec root(vec x) { EACH_LANE(IS_SINGLE ? sqrtf(x[k]) : sqrt(x[k])); }
INLINE vec magnitude(vec x) { EACH_LANE(x[k] < 0 ? -x[k] : x[k]); }
INLINE vec with_sign(vec x, vec of) { EACH_LANE(IS_SINGLE ? copysignf(x[k], of[k]) : copysign(x[k], of[k])); }

INLINE vec where_less(vec a, vec b, vec yes, vec no) {
    const __typeof__(a < b) is_less = a < b;
    return (vec)((is_less & (__typeof__(is_less))yes) | (~is_less & (__typeof__(is_less))no));
}

/* The sum of the halves of a vector, and so on, until 16 bytes are left. */
INLINE vec16 folded(vec x) {
#if BYTES == 64
    union { vec all; vec32 half[2]; } of = {x};
    union { vec32 all; vec16 half[2]; } of_half = {of.half[0] + of.half[1]};
    return of_half.half[0] + of_half.half[1];
#elif BYTES == 32
    union { vec all; vec16 half[2]; } of = {x};
    return of.half[0] + of.half[1];
#else
    return x;
#endif
}

/* The sum of a vector. */
INLINE real total(vec x) {
    const vec16 rest = folded(x);
    real sum = 0;
    UNROLL for (int k = 0; k < (int)(16 / sizeof(real)); k++) sum += rest[k];
    return sum;
}

/* The sums of ROWS vectors; those of four are taken side by side. */
INLINE void write_totals(const vec *x, real *to) {
    if (ROWS == 4 && IS_SINGLE) {
        const vec16 a = folded(x[0]), b = folded(x[1]), c = folded(x[ROWS / 2]), d = folded(x[ROWS - 1]);
        typedef float four __attribute__((vector_size(16)));
        four sum = {0};
        UNROLL for (int k = 0; k < (int)(16 / sizeof(real)); k++)
            sum += (four){(float)a[k], (float)b[k], (float)c[k], (float)d[k]};
        memcpy(to, &sum, sizeof(sum));
        return;
    }
    UNROLL for (int r = 0; r < ROWS; r++) to[r] = total(x[r]);
}

#define LN2 0.693147180559945f
#define SHIFT 12582912.0f /* 1.5 2^23: the last bits of x + SHIFT are x, rounded to a whole number */

/* x 2^n, for a whole number n to which SHIFT was added. */
INLINE vec times_power_of_two(vec x, vec shifted) { return x * (vec)(((bits)shifted + 127) << 23); }

/* The polynomial with these coefficients, the highest power first. */
INLINE vec series(vec x, const float *coefficients, const int count) {
    vec sum = fill(coefficients[0]);
    UNROLL for (int k = 1; k < count; k++) sum = sum * x + coefficients[k];
    return sum;
}

/* e^x to 1e-7 of itself near 0, for x below 88; underflow stops at e^-87. */
INLINE vec exponential(vec x) {
    static const float of_exp[] = {1 / 5040.f, 1 / 720.f, 1 / 120.f, 1 / 24.f, 1 / 6.f, 1 / 2.f, 1.f, 1.f};
    if (!IS_SINGLE) { EACH_LANE(exp(x[k])); }
    x = larger(x, fill(-87));
    vec shifted = x * (1 / LN2) + SHIFT;
    vec rest = x - (shifted - SHIFT) * LN2; /* |rest| <= log(2) / 2 */
    return times_power_of_two(series(rest, of_exp, 8), shifted);
}

/* Returns e, and writes artanh t, where x = 2^e m, m in [sqrt(1/2), sqrt(2)), and log m = 2 artanh t. */
INLINE vec split(vec x, vec *artanh) {
    static const float of_artanh[] = {1 / 11.f, 1 / 9.f, 1 / 7.f, 1 / 5.f, 1 / 3.f, 1.f};
    const int32_t root_of_half = 0x3f3504f3;
    bits of = (bits)x - root_of_half;
    vec m = (vec)((of & 0x7fffff) + root_of_half);
    vec t = (m - 1) / (m + 1);
    *artanh = t * series(t * t, of_artanh, 6);
    return (vec)__builtin_convertvector(of >> 23, floats);
}

/* The natural logarithm of positive normal numbers. */
INLINE vec logarithm(vec x) {
    if (!IS_SINGLE) { EACH_LANE(log(x[k])); }
    vec artanh, e = split(x, &artanh);
    return e * LN2 + artanh * 2;
}

/* x^exponent of positive normal numbers, for an exponent from 0 to 1; 0 for smaller x. */
INLINE vec power(vec x, real exponent) {
    static const float of_exp2[] = {
        1.5252734e-05f, 1.5403530e-04f, 1.3333558e-03f, 9.6181291e-03f, 5.5504109e-02f, 2.4022651e-01f, LN2, 1.f};
    if (!IS_SINGLE) { EACH_LANE(pow(x[k], exponent)); }
    vec artanh, e = split(x, &artanh);
    vec fraction = artanh * (2 / LN2);
    vec shifted = (e + fraction) * exponent + SHIFT;
    /* exponent * e - n first, in one instruction: else the digits of the fraction are lost where e is large */
    vec rest = e * exponent - (shifted - SHIFT);
    rest = fraction * exponent + rest;
    vec y = times_power_of_two(series(rest, of_exp2, 8), shifted);
    EACH_LANE(x[k] < 1.17549435e-38f ? 0 : y[k]);
}

INLINE real log_of(real x) { return IS_SINGLE ? logf(x) : log(x); }
INLINE real root_of(real x) { return IS_SINGLE ? sqrtf(x) : sqrt(x); }
