/* What one stage asks of a GPU: streams, staging memory, and the operations of lh_ops on them.
 *
 *     compute   all arithmetic and what comes from the host, in the order in which it was asked for
 *     outgoing  shards of the result and logits to the host: each waits for what computes it, and
 *               for nothing behind that
 *
 * What comes from the host is copied to pinned staging memory during the call; the two halves of it
 * are filled in turns, and waited for before they are filled again. The host thread waits there,
 * for what is sent, and in settle.
 *
 * The first error stays: nothing is asked of the GPU after it, and settle tells it. A GPU that has
 * failed takes its stage with it, whose chain is formed anew elsewhere.
 *
 * Thread: one at a time, that of the stage. */
#pragma once

#include "worker/compute/stage/ops.h"

/* For lh_cuda_device, which knows its free bytes. */
extern const lh_device lh_cuda_queue_device;
