/* Times the kernels of each instruction set beside what the core can do, measured in the same run:
 * multiply-adds from registers (float, and int8 dot products) and reading memory once.
 *
 *   bench_kernels [ISA | all] [milliseconds per figure] [TYPE | attention ...]
 *
 * With types only their products, with `attention` only that, else all kernels. One thread; the
 * best of the time given. Fraction: of the dot peak (quantized), the fma peak (floats, attention)
 * or the read rate, whichever is the greater: the nearer bound. */
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double time_limit_s = 0.1;

#define HUGE_PAGE ((size_t)2 << 20)

/* What is large lies in huge pages, as a worker's weights do. */
static void *allocate(size_t bytes) {
    size_t alignment = bytes < HUGE_PAGE ? 64 : HUGE_PAGE;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!memory) {
        fprintf(stderr, "bench_kernels: out of memory (%zu bytes)\n", bytes);
        exit(1);
    }
    if (alignment == HUGE_PAGE)
        madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 0x3c, (bytes + 63) / 64 * 64);
    return memory;
}

static float *allocate_floats(size_t count) {
    float *values = allocate(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i * 2654435761u >> 7) % 2001) * 1e-3f - 1;
    return values;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Seconds of one call: the least over the time limit. */
static double best_of(void (*run)(void *), void *context) {
    double best = 1e9, total = 0;
    while (total < time_limit_s) {
        double start = now_s();
        run(context);
        double seconds = now_s() - start;
        best = seconds < best ? seconds : best;
        total += seconds + 1e-7;
    }
    return best;
}

/* ---- What the core can do ---- */

typedef struct machine {
    double fma_per_s, dot_per_s, read_per_s; /* multiply-adds; bytes */
} machine;

#define PEAK_TURNS 100000
/* Ten independent chains, so that latency is hidden. */
#define TEN(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9)
#if defined(__x86_64__)
#define REGISTERS                                                                                  \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm14"
#elif defined(__aarch64__)
#define REGISTERS "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9"
#endif
#define CHAINS(name, op)                                                                           \
    static void name(void *unused) {                                                               \
        (void)unused;                                                                              \
        for (int i = 0; i < PEAK_TURNS; i++)                                                       \
            __asm__ volatile(TEN(op)::: REGISTERS);                                                \
    }
#if defined(__x86_64__)
#define FMA_512(n) "vfmadd231ps %%zmm15, %%zmm15, %%zmm" #n "\n"
#define FMA_256(n) "vfmadd231ps %%ymm15, %%ymm15, %%ymm" #n "\n"
#define DOT_512(n) "vpdpbusd %%zmm15, %%zmm15, %%zmm" #n "\n"
#define DOT_256(n)                                                                                 \
    "vpmaddubsw %%ymm15, %%ymm15, %%ymm14\nvpaddw %%ymm14, %%ymm" #n ", %%ymm" #n "\n"
CHAINS(fma_512, FMA_512)
CHAINS(fma_256, FMA_256)
CHAINS(dot_512, DOT_512)
CHAINS(dot_256, DOT_256)
#elif defined(__aarch64__)
#define FMA_NEON(n)    "fmla v" #n ".4s, v31.4s, v31.4s\n"
#define DOT_NEON(n)    "smlal v" #n ".8h, v31.8b, v31.8b\n"
#define DOT_DOTPROD(n) ".arch armv8.2-a+dotprod\nsdot v" #n ".4s, v31.16b, v31.16b\n"
CHAINS(fma_neon, FMA_NEON)
CHAINS(dot_neon, DOT_NEON)
CHAINS(dot_dotprod, DOT_DOTPROD)
#endif

static volatile uint64_t sink;

/* Eight streams whose starts fall on different sets of the caches. */
#define STREAM_WORDS (((size_t)32 << 17) + 520)
#define READ_BYTES   (8 * STREAM_WORDS * 8)
static void read_memory(void *memory) {
    const uint64_t *words = memory;
    uint64_t sums[8] = {0};
    for (size_t i = 0; i < STREAM_WORDS; i += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] += words[j * STREAM_WORDS + i]; /* one word brings its line */
    sink = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

static machine measure_machine(const char *isa) {
    machine m = {0};
    void *memory = allocate(READ_BYTES);
    m.read_per_s = (double)READ_BYTES / best_of(read_memory, memory);
    free(memory);
#if defined(__x86_64__)
    if (strcmp(isa, "avx512") == 0) {
        m.fma_per_s = 160.0 * PEAK_TURNS / best_of(fma_512, NULL);
        m.dot_per_s = 640.0 * PEAK_TURNS / best_of(dot_512, NULL);
    } else if (strcmp(isa, "avx2") == 0) {
        m.fma_per_s = 80.0 * PEAK_TURNS / best_of(fma_256, NULL);
        m.dot_per_s = 320.0 * PEAK_TURNS / best_of(dot_256, NULL);
    }
#elif defined(__aarch64__)
    m.fma_per_s = strcmp(isa, "reference") == 0 ? 0 : 40.0 * PEAK_TURNS / best_of(fma_neon, NULL);
    if (strcmp(isa, "dotprod") == 0)
        m.dot_per_s = 160.0 * PEAK_TURNS / best_of(dot_dotprod, NULL);
    else if (strcmp(isa, "neon") == 0)
        m.dot_per_s = 80.0 * PEAK_TURNS / best_of(dot_neon, NULL);
#endif
    return m;
}

static void report(const char *isa, const char *what, double seconds, double macs, double bytes,
                   double peak, double read_per_s) {
    double compute = peak > 0 ? macs / seconds / peak : 0, read = bytes / seconds / read_per_s;
    printf("%-9s %-34s %10.1f us %8.1f GMAC/s %7.1f GB/s %5.0f%% of %s\n", isa, what, seconds * 1e6,
           macs / seconds * 1e-9, bytes / seconds * 1e-9, 100 * (compute > read ? compute : read),
           compute > read ? "compute" : "memory");
    fflush(stdout);
}

/* ---- Kernels ---- */

typedef struct product {
    const lh_kernels *kernels;
    /* enough of them that the last cache does not hold all when one row is timed */
    lh_matrix *copies;
    uint32_t copy_count, next;
    lh_activations x;
    float *y;
    size_t y_stride;
} product;

static void run_product(void *context) {
    product *p = context;
    const lh_matrix *w = &p->copies[p->next++ % p->copy_count];
    p->kernels->matmul(p->y, p->y_stride, &p->x, w, (lh_span){0, w->inputs},
                       (lh_span){0, w->outputs}, false);
}

/* `cold`: weights come from memory, as they do in a model larger than the caches. */
static void bench_product(const lh_kernels *kernels, const machine *m, lh_dtype dtype,
                          lh_activation_kind kind, uint32_t outputs, uint32_t inputs, uint32_t rows,
                          bool cold) {
    size_t bytes = lh_matrix_bytes(dtype, outputs, inputs);
    product p = {.kernels = kernels,
                 .copy_count = cold ? (uint32_t)(((size_t)256 << 20) / bytes) + 1 : 1};
    p.copies = allocate(p.copy_count * sizeof *p.copies);
    uint8_t *memory = allocate(bytes * p.copy_count);
    for (uint32_t i = 0; i < p.copy_count; i++)
        p.copies[i] = (lh_matrix){dtype, outputs, inputs, memory + i * bytes};
    float *x = allocate_floats((size_t)rows * inputs);
    p.x = (lh_activations){kind, rows, inputs, allocate(lh_activations_bytes(kind, rows, inputs))};
    kernels->pack_activations(&p.x, (lh_span){0, inputs}, x, inputs, NULL, NULL);
    p.y_stride = lh_row_stride(outputs);
    p.y = allocate_floats(rows * p.y_stride);
    char what[64];
    snprintf(what, sizeof what, "%s%s %ux%u rows %u%s", lh_dtype_lookup((uint32_t)dtype)->name,
             kind == LH_ACTIVATION_Q16 ? " q16" : "", outputs, inputs, rows, cold ? " cold" : "");
    report(kernels->name, what, best_of(run_product, &p), (double)rows * outputs * inputs,
           (double)bytes,
           kind == LH_ACTIVATION_F32 ? m->fma_per_s
                                     : m->dot_per_s / (kind == LH_ACTIVATION_Q16 ? 2 : 1),
           m->read_per_s);
    free(p.y);
    free(p.x.data);
    free(x);
    free(memory);
    free(p.copies);
}

typedef struct attention {
    const lh_kernels *kernels;
    lh_kv_view view;
    float *q, *y;
    void *scratch;
    uint32_t group, first, rows;
} attention;

static void run_attention(void *context) {
    attention *a = context;
    size_t stride = (size_t)a->group * a->view.shape.key_dim;
    a->kernels->attention(a->y, stride, a->q, stride, &a->view, 0, a->group, a->first, a->rows,
                          LH_ATTENTION_ALL, 0.125f, NULL, a->scratch);
}

static void bench_attention(const lh_kernels *kernels, const machine *m, lh_kv_type type,
                            uint32_t group, uint32_t first, uint32_t rows) {
    enum { DIMS = 64, PAGES = 32 };
    static const char *const names[] = {[LH_KV_F32] = "", [LH_KV_F16] = " f16", [LH_KV_Q8] = " q8"};
    const lh_kv_shape shape = {type, 1, DIMS, DIMS};
    size_t page = lh_kv_page_bytes(&shape, DIMS);
    uint8_t *memory = allocate(2 * PAGES * page);
    void *pages[2][PAGES];
    for (size_t i = 0; i < PAGES; i++) {
        pages[0][i] = memory + 2 * i * page;
        pages[1][i] = memory + (2 * i + 1) * page;
    }
    size_t floats = (size_t)rows * group * DIMS;
    attention a = {kernels,
                   {pages[0], pages[1], shape},
                   allocate_floats(floats),
                   allocate_floats(floats),
                   allocate(lh_attention_scratch_bytes(DIMS)),
                   group,
                   first,
                   rows};
    float *values = allocate_floats((first + rows) * DIMS);
    kernels->kv_store(&a.view, 0, first + rows, values, DIMS, values, DIMS);
    free(values);
    double keys = ((double)first + 1 + first + rows) / 2;
    char what[64];
    snprintf(what, sizeof what, "attention%s group %u at %u rows %u", names[type], group, first,
             rows);
    report(kernels->name, what, best_of(run_attention, &a), keys * rows * group * DIMS * 2,
           (double)(first + rows) * 2 * (double)lh_kv_row_bytes(type, DIMS), m->fma_per_s,
           m->read_per_s);
    free(a.scratch);
    free(a.y);
    free(a.q);
    free(memory);
}

typedef struct panel {
    const lh_kernels *kernels;
    lh_activations packed;
    float *x, *y;
    uint16_t *halves;
} panel;
#define PANEL_ROWS  64u
#define PANEL_WIDTH 1536u

static void run_pack(void *context) {
    panel *p = context;
    float squares[PANEL_ROWS * LH_LANES] = {0};
    p->kernels->pack_activations(&p->packed, (lh_span){0, PANEL_WIDTH}, p->x, PANEL_WIDTH, p->y,
                                 squares);
}

static void run_silu(void *context) {
    panel *p = context;
    p->kernels->silu_mul(p->y, p->x, p->x, PANEL_WIDTH, PANEL_ROWS, (lh_span){0, PANEL_WIDTH});
}

static void run_exp(void *context) {
    panel *p = context;
    p->kernels->exp_sum(p->y, p->x, 1, (size_t)PANEL_ROWS * PANEL_WIDTH);
}

static void run_f16(void *context) {
    panel *p = context;
    p->kernels->f16_from_f32(p->halves, p->x, (size_t)PANEL_ROWS * PANEL_WIDTH);
}

static void bench_panels(const lh_kernels *kernels, const machine *m) {
    size_t count = (size_t)PANEL_ROWS * PANEL_WIDTH;
    panel p = {kernels,
               {LH_ACTIVATION_Q8, PANEL_ROWS, PANEL_WIDTH,
                allocate(lh_activations_bytes(LH_ACTIVATION_Q8, PANEL_ROWS, PANEL_WIDTH))},
               allocate_floats(count),
               allocate_floats(count),
               allocate(count * 2)};
    report(kernels->name, "pack q8 with squares 64x1536", best_of(run_pack, &p), 0,
           (double)count * 4, 0, m->read_per_s);
    report(kernels->name, "silu_mul 64x1536", best_of(run_silu, &p), 0, (double)count * 12, 0,
           m->read_per_s);
    report(kernels->name, "exp_sum 98304", best_of(run_exp, &p), 0, (double)count * 8, 0,
           m->read_per_s);
    report(kernels->name, "f16_from_f32 98304", best_of(run_f16, &p), 0, (double)count * 6, 0,
           m->read_per_s);
    free(p.packed.data);
    free(p.x);
    free(p.y);
    free(p.halves);
}

/* What decodes, from memory; then the ways through the row tiles, from the cache. */
static void bench_products(const lh_kernels *kernels, const machine *m, lh_dtype dtype,
                           lh_activation_kind quantized) {
    static const uint32_t shapes[][2] = {{576, 1536}, {2048, 2048}};
    static const uint32_t cold_rows[] = {1, 2, 4, 8, 16};
    static const uint32_t rows[] = {1, 2, 3, 4, 6, 8, 9, 12, 16, 24, 32, 64, 512};
    const lh_activation_kind kind = lh_activation_kind_for(dtype, quantized);
    if (kind == LH_ACTIVATION_F32 && quantized == LH_ACTIVATION_Q16) /* as before */
        return;
    for (size_t s = 0; s < 2; s++) {
        for (size_t r = 0; r < sizeof cold_rows / sizeof cold_rows[0]; r++)
            bench_product(kernels, m, dtype, kind, shapes[s][0], shapes[s][1], cold_rows[r], true);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
            bench_product(kernels, m, dtype, kind, shapes[s][0], shapes[s][1], rows[r], false);
    }
}

/* Or there are no names. */
static bool is_named(const char *what, int argc, char **argv) {
    for (int i = 3; i < argc; i++)
        if (strcmp(what, argv[i]) == 0)
            return true;
    return argc <= 3;
}

int main(int argc, char **argv) {
    static const lh_dtype dtypes[] = {
        LH_DTYPE_Q4_1,   LH_DTYPE_Q4_0,  LH_DTYPE_Q5_0,   LH_DTYPE_Q5_1,  LH_DTYPE_Q8_0,
        LH_DTYPE_Q4_K,   LH_DTYPE_Q5_K,  LH_DTYPE_Q6_K,   LH_DTYPE_Q3_K,  LH_DTYPE_Q2_K,
        LH_DTYPE_IQ4_NL, LH_DTYPE_MXFP4, LH_DTYPE_IQ4_XS, LH_DTYPE_TQ2_0, LH_DTYPE_IQ3_S,
        LH_DTYPE_IQ2_S,  LH_DTYPE_F16,   LH_DTYPE_BF16,   LH_DTYPE_F32};
    if (argc > 2)
        time_limit_s = atof(argv[2]) * 1e-3;
    for (size_t set = 1; lh_kernels_at(set); set++) {
        const lh_kernels *kernels = lh_kernels_at(set);
        if (argc > 1 && strcmp(argv[1], kernels->name) != 0 && strcmp(argv[1], "all") != 0)
            continue;
        machine m = measure_machine(kernels->name);
        printf("%s: fma %.1f GMAC/s, int8 dot %.1f GMAC/s, memory read %.1f GB/s\n", kernels->name,
               m.fma_per_s * 1e-9, m.dot_per_s * 1e-9, m.read_per_s * 1e-9);
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
            if (is_named(lh_dtype_lookup((uint32_t)dtypes[d])->name, argc, argv)) {
                bench_products(kernels, &m, dtypes[d], LH_ACTIVATION_Q8);
                bench_products(kernels, &m, dtypes[d], LH_ACTIVATION_Q16);
            }
        for (lh_kv_type type = LH_KV_F32; type <= LH_KV_Q8 && is_named("attention", argc, argv);
             type++) {
            bench_attention(kernels, &m, type, 3, 1023, 1);
            bench_attention(kernels, &m, type, 3, 0, 64);
            bench_attention(kernels, &m, type, 3, 1024, 64);
        }
        if (argc <= 3)
            bench_panels(kernels, &m);
    }
    return 0;
}
