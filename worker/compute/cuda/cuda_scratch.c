/* Scratch of attention and of draws grows with the rows, each as much as the first. */
#include "worker/compute/cuda/cuda_scratch.h"

#include "common/base/arithmetic.h"

#include <assert.h>

uint32_t lh_cuda_room(uint32_t context) {
    uint32_t room = LH_ATTENTION_BLOCK;
    while (room < context && room <= UINT32_MAX / 2)
        room *= 2;
    return room;
}

static size_t attention_bytes(const lh_cuda_device *device, const lh_device_work *work) {
    const lh_model_config *config = work->config;
    const uint32_t value_dim = config->latent.rank > 0 ? config->latent.rank : config->head_dim;
    const size_t row = device->plugin->attention_scratch_bytes(
        1, config->heads, value_dim, lh_cuda_room(work->context), LH_ATTENTION_ALL);
    const size_t all = work->rows * row;
    if (all <= device->scratch_bytes)
        return all;
    return row > device->scratch_bytes ? row : device->scratch_bytes;
}

size_t lh_cuda_scratch_bytes(const lh_cuda_device *device, const lh_device_work *work) {
    if (!work->config)
        return 0;
    const size_t attention = attention_bytes(device, work),
                 draws = work->drawn_rows == 0 ? 0
                                               : device->plugin->draw_scratch_bytes(
                                                     work->drawn_rows, work->config->vocabulary);
    return attention > draws ? attention : draws;
}

int lh_cuda_scratch_init(lh_cuda_scratch *scratch, const lh_cuda_device *device,
                         const lh_device_work *work) {
    const size_t bytes = lh_cuda_scratch_bytes(device, work);
    int error = bytes > 0 ? device->plugin->allocate(&scratch->memory, bytes) : 0;
    if (error == 0)
        scratch->bytes = bytes;
    return error;
}

void lh_cuda_scratch_reset(lh_cuda_scratch *scratch, const lh_cuda_plugin *plugin) {
    plugin->release(scratch->memory);
    *scratch = (lh_cuda_scratch){0};
}

uint32_t lh_cuda_scratch_rows(const lh_cuda_scratch *scratch, size_t row_bytes) {
    const size_t rows = scratch->bytes / row_bytes;
    assert(rows > 0);
    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}
