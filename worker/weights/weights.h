/* The weights of one model as a stage loads them: from a local GGUF file where it is that very
 * model, else from the cache folder, and what is missing there is fetched by range requests first.
 * Every tensor's digest is checked before it is used; of one of which a part is needed, those of
 * the blocks that have it. A process checks bytes once, as long as they are in the same file: the
 * next stage, after a loss say, is not kept waiting for it.
 *
 * Blocking, for a thread that may wait (libuv's pool). One thread at a time, but for the counters
 * and the flag. The network side opens and fetches; the stage sees the lh_weight_source alone. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "common/model/model.h"
#include "worker/compute/tensor_source.h"
#include "worker/compute/thread_pool.h"
#include "worker/weights/weight_cache.h"
#include "worker/weights/weight_fetch.h"
#include "worker/weights/weight_inventory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct lh_weights lh_weights;

/* What the assignment's `model` says (common/protocol/CONTROL.md) and what the flags say. Texts are
 * copied. */
typedef struct lh_weights_options {
    const char *header_sha256; /* 64 hex digits */
    uint64_t header_bytes, file_bytes;
    const char *weights_url, *tensors_url; /* absolute, or "/path" on the gateway's fleet port */
    /* "http://host:port" or "https://host:port": HTTP/2, with prior knowledge on http */
    const char *fleet_url;
    lh_weight_cache *cache;              /* outlives the weights */
    lh_thread_pool *pool;                /* checks what is here; NULL: the caller does; outlives */
    const char *model_path;              /* local GGUF file, or NULL or "" */
    lh_weight_certificates certificates; /* outlive the weights */
    /* that a server is asked for on average, and then at most half of the free disk is filled; 0:
     * as many as it sends */
    uint64_t bytes_per_s_max;
    /* set by any thread: the call in progress returns LH_ERR_CANCELLED; may be NULL; outlives */
    const _Atomic bool *cancelled;
} lh_weights_options;

/* Gets and parses the header (fetches it where neither file nor cache has it) and the tensors'
 * digests. A local file that is another model is left aside with a warning. LH_ERR_INVALID
 * (options), LH_ERR_CORRUPT (a digest differs), LH_ERR_UNAVAILABLE or LH_ERR_TIMEOUT (server),
 * LH_ERR_NOT_FOUND (404), LH_ERR_UNSUPPORTED (no range requests there), LH_ERR_LIMIT (disk full),
 * LH_ERR_IO (disk), LH_ERR_CANCELLED, LH_ERR_NO_MEMORY, those of lh_gguf_parse. */
lh_status lh_weights_open(const lh_weights_options *options, lh_weights **weights, lh_error *error);
/* Nothing acquired may be in use. NULL is allowed. */
void lh_weights_close(lh_weights *weights);

/* Lives as long as the weights. */
const lh_gguf *lh_weights_gguf(const lh_weights *weights);

/* What of the tensors is needed: slices[] of one, as lh_parameters_slices has them; how many. */
typedef struct lh_weight_needs {
    uint32_t (*slices)(void *context, lh_tensor_role role, const lh_gguf_tensor *tensor,
                       lh_tensor_slice slices[LH_TENSOR_PARTS_MAX]);
    void *context;
} lh_weight_needs;

/* Makes sure that every tensor which the range needs is here, checked, and fetches what is missing:
 * whole, or, where `needs` is not NULL and the server has digests of blocks, the blocks that have
 * what is needed. on_progress (may be NULL) gets bytes done and bytes needed, often. May be called
 * again, with another range and other needs, too. Errors as above; what has been fetched stays in
 * the cache. */
lh_status lh_weights_ensure(lh_weights *weights, const lh_model_config *config,
                            lh_layer_range range, const lh_weight_needs *needs,
                            void (*on_progress)(void *, uint64_t, uint64_t), void *progress_context,
                            lh_error *error);
/* Tells the inventory which files each layer is made of. LH_ERR_NOT_FOUND: a tensor has no digest;
 * LH_ERR_LIMIT: more layers than it lists; those of lh_weight_inventory_note. */
lh_status lh_weights_list_layers(const lh_weights *weights, const lh_model_config *config,
                                 lh_weight_inventory *inventory, lh_error *error);
/* Bytes that came over the network since the opening. */
uint64_t lh_weights_fetched_bytes(const lh_weights *weights);

/* For lh_stage_create; valid until close. Acquiring a tensor that was not ensured is
 * LH_ERR_NOT_FOUND. */
lh_weight_source lh_weights_source(lh_weights *weights);
