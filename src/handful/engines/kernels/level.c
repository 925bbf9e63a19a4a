/* The highest level of x86-64 of this processor for which the kernels are compiled; 0: no level of it has kernels. */

#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
int level(void) {
#if defined(__x86_64__)
#define HAS __builtin_cpu_supports
    __builtin_cpu_init();
    if (!(HAS("sse3") && HAS("ssse3") && HAS("sse4.1") && HAS("sse4.2") && HAS("popcnt"))) return 0;
    if (!(HAS("avx") && HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2"))) return 2;
    if (!(HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl"))) return 3;
    return 4;
#else
    return 0;
#endif
}
