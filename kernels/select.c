/* Which instruction sets this machine runs, and the choice among them. */
#include "kernels/instruction_sets.h"

#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static bool runs_everywhere(void) {
    return true;
}

#if defined(__x86_64__)
/* Not every compiler's __builtin_cpu_supports knows this name. The system's part, saving the wide
 * registers, is checked with AVX2. */
static bool has_f16c(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}

static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
static bool runs_dotprod(void) {
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
#endif

/* Worst first. */
static const struct instruction_set {
    const lh_kernels *kernels;
    bool (*runs)(void);
} sets[] = {
    {&lh_kernels_reference, runs_everywhere},
#if defined(__x86_64__)
    {&lh_kernels_avx2, runs_avx2},
    {&lh_kernels_avx512, runs_avx512},
#elif defined(__aarch64__)
    {&lh_kernels_neon, runs_everywhere},
    {&lh_kernels_dotprod, runs_dotprod},
#endif
};
#define SETS (sizeof sets / sizeof sets[0])

const lh_kernels *lh_kernels_at(size_t index) {
    for (size_t i = 0; i < SETS; i++)
        if (sets[i].runs() && index-- == 0)
            return sets[i].kernels;
    return NULL;
}

/* The names of all sets in this build, or of those that the machine runs: "reference, avx2". */
static void list_names(char *text, size_t size, bool all) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < SETS; i++)
        if ((all || sets[i].runs()) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     sets[i].kernels->name);
}

lh_status lh_kernels_select(const char *isa, const lh_kernels **kernels, lh_error *error) {
    bool best = !isa || isa[0] == '\0' || strcmp(isa, "auto") == 0;
    char names[64];
    for (size_t i = SETS; i-- > 0;) {
        if (!best && strcmp(isa, sets[i].kernels->name) != 0)
            continue;
        if (sets[i].runs()) {
            *kernels = sets[i].kernels;
            return LH_OK;
        }
        if (!best) {
            list_names(names, sizeof names, false);
            return lh_fail(error, LH_ERR_UNSUPPORTED,
                           "this machine does not run %s kernels; it runs: %s", isa, names);
        }
    }
    list_names(names, sizeof names, true);
    return lh_fail(error, LH_ERR_INVALID,
                   "no instruction set is called '%.40s'; this build has: auto, %s", isa, names);
}
