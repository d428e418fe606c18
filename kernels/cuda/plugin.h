/* What the library longhaul-cuda.so offers a program that opens it: the kernels, and as much of the
 * CUDA runtime as they are used with. No program is linked with CUDA: where the library or a driver
 * is missing, everything else works.
 *
 * Every function of the struct but `error_text` returns 0 or the runtime's error number. A device
 * that has failed gives its error from every further call. Streams do what is asked in order, and
 * nothing waits for what another stream does unless `wait_for` says so; memory of the host that a
 * stream copies from or to is pinned (allocate_host) and must stay until it has.
 *
 * Thread: any; `use` chooses the device of the calling thread. */
#pragma once

#include "kernels/cuda/cuda_fast.h"
#include "kernels/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts the changes of this struct: program and library must be of one. */
#define LH_CUDA_PLUGIN_VERSION 6u
/* The function that the library exports, of type lh_cuda_plugin_function. */
#define LH_CUDA_PLUGIN_FUNCTION "lh_cuda_plugin_open"

typedef struct CUevent_st *lh_cuda_event;
typedef struct CUgraphExec_st *lh_cuda_graph;

/* The runtime's number of an allocation for which there is no room. */
#define LH_CUDA_OUT_OF_MEMORY 2

typedef struct lh_cuda_facts {
    char name[128];
    uint32_t major, minor; /* compute capability */
    uint32_t multiprocessors;
    uint64_t memory_bytes;
} lh_cuda_facts;

/* The functions of cuda_kernels.h and cuda_fast.h, without their prefix. */
#define LH_CUDA_KERNELS(X)                                                                         \
    X(pack_activations)                                                                            \
    X(norm_activations)                                                                            \
    X(products)                                                                                    \
    X(scale_rows)                                                                                  \
    X(add_rows)                                                                                    \
    X(scale)                                                                                       \
    X(norm_heads)                                                                                  \
    X(norm_add)                                                                                    \
    X(silu_mul)                                                                                    \
    X(gelu_mul)                                                                                    \
    X(swiglu_mul)                                                                                  \
    X(rope)                                                                                        \
    X(matrix_rows)                                                                                 \
    X(kv_store)                                                                                    \
    X(attention)                                                                                   \
    X(prompt_attention)                                                                            \
    X(attention_scratch_bytes)                                                                     \
    X(route)                                                                                       \
    X(expert_products)                                                                             \
    X(expert_sum)                                                                                  \
    X(sigmoid)                                                                                     \
    X(wire_bytes)                                                                                  \
    X(pack_wire)                                                                                   \
    X(pack_heads)                                                                                  \
    X(head_products)                                                                               \
    X(copy_heads)                                                                                  \
    X(latent_attention)                                                                            \
    X(latent_prompt_attention)                                                                     \
    X(change_logits)                                                                               \
    X(draw)                                                                                        \
    X(draw_scratch_bytes)                                                                          \
    X(fast_bytes)                                                                                  \
    X(fast_open)                                                                                   \
    X(fast_close)                                                                                  \
    X(fast_products)

typedef struct lh_cuda_plugin {
    uint32_t version;

    int (*count_devices)(int *count);
    int (*describe)(int device, lh_cuda_facts *facts);
    int (*use)(int device);
    const char *(*error_text)(int error);
    int (*memory_info)(size_t *free_bytes, size_t *total_bytes);

    int (*allocate)(void **memory, size_t bytes);
    int (*release)(void *memory);
    int (*allocate_host)(void **memory, size_t bytes);
    int (*release_host)(void *memory);

    /* An urgent one goes before the others where the GPU has room for one alone. */
    int (*create_stream)(lh_cuda_stream *stream, bool is_urgent);
    int (*destroy_stream)(lh_cuda_stream stream);
    int (*finish_stream)(lh_cuda_stream stream); /* waits for it */
    int (*create_event)(lh_cuda_event *event);
    int (*destroy_event)(lh_cuda_event event);
    int (*record)(lh_cuda_event event, lh_cuda_stream stream);
    int (*wait_for)(lh_cuda_stream stream, lh_cuda_event event);
    int (*finish_event)(lh_cuda_event event); /* waits for what it was recorded behind */

    /* `rows` rows of `bytes` each, so far apart on either side; between host and device, or within
     * the device. */
    int (*copy)(lh_cuda_stream stream, void *to, size_t to_stride, const void *from,
                size_t from_stride, size_t bytes, size_t rows);
    int (*clear)(lh_cuda_stream stream, void *to, size_t bytes);

    /* What this thread asks of the stream from here on is recorded, and not done, until the end of
     * the recording; a stream may do what was recorded any number of times. Nothing may be
     * allocated or waited for meanwhile. */
    int (*begin_recording)(lh_cuda_stream stream);
    int (*end_recording)(lh_cuda_stream stream, lh_cuda_graph *graph);
    int (*replay)(lh_cuda_graph graph, lh_cuda_stream stream);
    int (*destroy_graph)(lh_cuda_graph graph);

#define X(name) __typeof__(&lh_cuda_##name) name;
    LH_CUDA_KERNELS(X)
#undef X
} lh_cuda_plugin;

/* Static storage. */
typedef const lh_cuda_plugin *lh_cuda_plugin_function(void);

#ifdef __cplusplus
}
#endif
