/* Recordings of what steps ask of a GPU. A layer is some twenty kernels, each of which takes the
 * host a few microseconds to ask for, and the GPU hardly longer to compute for one row: so a decode
 * step that has come before is asked for at once, as a graph of the CUDA runtime. Steps are alike
 * where buffer, rows and the room for keys are: what differs otherwise lies in the buffers that a
 * step fills before. A step of a kind is recorded when it comes the second time: many kinds come
 * once. Thread: the stage's. */
#pragma once

#include "kernels/cuda/plugin.h"

/* Kinds that are kept: of the buffers of a stage, some numbers of rows and some contexts. */
#define LH_CUDA_RECORDINGS_MAX 64u

typedef struct lh_cuda_kind {
    const void *buffer;
    uint32_t rows, projected, context;
    bool is_prompt;
} lh_cuda_kind;

typedef struct lh_cuda_recording {
    lh_cuda_kind kind;
    uint32_t times;      /* that the kind has come; 0: the place is free */
    lh_cuda_graph graph; /* NULL: not recorded yet */
} lh_cuda_recording;

typedef struct lh_cuda_recordings {
    lh_cuda_recording list[LH_CUDA_RECORDINGS_MAX];
    uint32_t next; /* the place that goes to the next new kind */
} lh_cuda_recordings;

/* The place of the kind; a new one takes that of the oldest. Valid until the next call. */
lh_cuda_recording *lh_cuda_recordings_find(lh_cuda_recordings *recordings,
                                           const lh_cuda_plugin *plugin, const lh_cuda_kind *kind);
void lh_cuda_recordings_drop(lh_cuda_recordings *recordings, const lh_cuda_plugin *plugin);
