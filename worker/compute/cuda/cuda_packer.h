/* What leaves a stage, packed for the wire by the GPU, so that packed bytes alone travel to the
 * host: on a stream of its own, which is urgent and has few of the multiprocessors, so that it
 * neither queues behind a large product nor takes much from it. Thread: the stage's. */
#pragma once

#include "kernels/cuda/plugin.h"
#include "worker/compute/stage/ops.h"

typedef struct lh_cuda_packer {
    const lh_cuda_plugin *plugin;
    lh_cuda_stream stream;
    lh_cuda_event packed;
    uint32_t *refused; /* [LH_STEP_COLUMN_SHARDS_MAX], pinned: set by the GPU */
    uint32_t blocks;   /* of threads, at most */
} lh_cuda_packer;

/* 0, or the runtime's error; reset either way. */
int lh_cuda_packer_init(lh_cuda_packer *packer, const lh_cuda_plugin *plugin,
                        uint32_t multiprocessors);
void lh_cuda_packer_reset(lh_cuda_packer *packer);
/* Packs the columns, the step's number-th, once `computed` is passed; `to` then copies them to the
 * host. 0, or the runtime's error. */
int lh_cuda_packer_send(lh_cuda_packer *packer, uint32_t number, const lh_outgoing *outgoing,
                        lh_cuda_event computed, lh_cuda_stream to);
/* Once that copy is done. */
lh_sent lh_cuda_packer_sent(const lh_cuda_packer *packer, uint32_t number,
                            const lh_outgoing *outgoing);
