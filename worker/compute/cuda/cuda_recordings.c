/* A ring of places: kinds that come often are few, so the oldest one may go. */
#include "worker/compute/cuda/cuda_recordings.h"

static bool is_same(const lh_cuda_kind *a, const lh_cuda_kind *b) {
    return a->buffer == b->buffer && a->rows == b->rows && a->projected == b->projected &&
           a->context == b->context && a->is_prompt == b->is_prompt;
}

static void drop(lh_cuda_recording *recording, const lh_cuda_plugin *plugin) {
    if (recording->graph)
        plugin->destroy_graph(recording->graph);
    *recording = (lh_cuda_recording){0};
}

lh_cuda_recording *lh_cuda_recordings_find(lh_cuda_recordings *recordings,
                                           const lh_cuda_plugin *plugin, const lh_cuda_kind *kind) {
    for (uint32_t i = 0; i < LH_CUDA_RECORDINGS_MAX; i++)
        if (recordings->list[i].times > 0 && is_same(&recordings->list[i].kind, kind))
            return &recordings->list[i];
    lh_cuda_recording *place = &recordings->list[recordings->next];
    recordings->next = (recordings->next + 1) % LH_CUDA_RECORDINGS_MAX;
    drop(place, plugin);
    place->kind = *kind;
    return place;
}

void lh_cuda_recordings_drop(lh_cuda_recordings *recordings, const lh_cuda_plugin *plugin) {
    for (uint32_t i = 0; i < LH_CUDA_RECORDINGS_MAX; i++)
        drop(&recordings->list[i], plugin);
}
