/* What one stage asks of a GPU: streams, staging memory, and the operations of lh_ops on them.
 *
 *     compute   all arithmetic and most of what comes from the host, in the order in which it was
 *               asked for
 *     incoming  shards of the activation, while others are computed with: what is asked after one
 *               waits for it; it waits for nothing, since nothing that was asked before writes to
 *               a buffer that is filled (put_rows of lh_ops)
 *     packing   shards of the result for the wire, unless that takes floats (cuda_packer.h): each
 *               waits for what computes it, and for nothing behind that
 *     outgoing  the same, and logits, to the host: each waits for what packs or computes it
 *
 * What comes from the host is copied to pinned staging memory during the call, of which each of the
 * two streams has its own; the two halves of it are filled in turns, and waited for before they are
 * filled again. The host thread waits there,
 * for what is sent, and in settle.
 *
 * A fast stage's products are cuBLAS's where that takes them (kernels/cuda/cuda_fast.h), on the
 * compute stream as everything else, and part of its recordings.
 *
 * The first error stays: nothing is asked of the GPU after it, and settle tells it. A GPU that has
 * failed takes its stage with it, whose chain is formed anew elsewhere.
 *
 * Thread: one at a time, that of the stage. */
#pragma once

#include "worker/compute/stage/ops.h"

/* For lh_cuda_device, which knows its free bytes. */
extern const lh_device lh_cuda_queue_device;
