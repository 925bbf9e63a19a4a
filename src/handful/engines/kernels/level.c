/* The highest level of x86-64 of this processor and its operating system for which there are kernels; 0: there is none.
   By the instruction cpuid itself, because Zig's library lacks what __builtin_cpu_supports calls. */

#if defined(__x86_64__)
#include <cpuid.h>

#define ALL(bits, of) (((of) & (bits)) == (bits))
#define SSE (bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT)
#define AVX (bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C)
#define AVX2 (bit_BMI | bit_AVX2 | bit_BMI2)
#define AVX512 (bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL)
#define SAVES_AVX 0x06u    /* the system saves these registers when it changes processes */
#define SAVES_AVX512 0xe6u
#define LZCNT (1u << 5)

static int level_of_processor(void) {
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !ALL(SSE, c)) return 0;
    if (!ALL(AVX, c)) return 2;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!ALL(SAVES_AVX, saved) || !__get_cpuid(0x80000001u, &a, &b, &c, &d) || !ALL(LZCNT, c)) return 2;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !ALL(AVX2, b)) return 2;
    return ALL(AVX512, b) && ALL(SAVES_AVX512, saved) ? 4 : 3;
}
#else
static int level_of_processor(void) { return 0; }
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

EXPORT int level(void) { return level_of_processor(); }

/* A checksum of the files that this library was compiled from: with other arguments a call would crash. */
EXPORT unsigned sources(void) { return SOURCES; }
