/* The GPU says in memory of the host that it could not pack a shard: one copy less. */
#include "worker/compute/cuda/cuda_packer.h"

/* The share of the multiprocessors that packing may take: with four numbers a thread on their way
 * these read some 100 GB/s on a large card, twice what travels to the host. */
#define SHARE 8u

static lh_cuda_wire wire_of(const lh_outgoing *outgoing) {
    return outgoing->wire == LH_WIRE_F16 ? LH_CUDA_WIRE_F16 : LH_CUDA_WIRE_Q8;
}

int lh_cuda_packer_init(lh_cuda_packer *packer, const lh_cuda_plugin *plugin,
                        uint32_t multiprocessors) {
    *packer = (lh_cuda_packer){.plugin = plugin,
                               .blocks = multiprocessors > SHARE ? multiprocessors / SHARE : 1};
    int error = plugin->create_stream(&packer->stream, true);
    if (error == 0)
        error = plugin->create_event(&packer->packed);
    if (error == 0)
        error = plugin->allocate_host((void **)&packer->refused,
                                      LH_STEP_COLUMN_SHARDS_MAX * sizeof *packer->refused);
    return error;
}

void lh_cuda_packer_reset(lh_cuda_packer *packer) {
    const lh_cuda_plugin *plugin = packer->plugin;
    if (!plugin)
        return;
    plugin->release_host(packer->refused);
    if (packer->packed)
        plugin->destroy_event(packer->packed);
    if (packer->stream)
        plugin->destroy_stream(packer->stream);
    *packer = (lh_cuda_packer){0};
}

int lh_cuda_packer_send(lh_cuda_packer *packer, uint32_t number, const lh_outgoing *outgoing,
                        lh_cuda_event computed, lh_cuda_stream to) {
    const lh_cuda_plugin *plugin = packer->plugin;
    const uint32_t rows = outgoing->rows, columns = outgoing->columns.end - outgoing->columns.begin;
    const size_t bytes = plugin->wire_bytes(wire_of(outgoing), rows, columns);
    packer->refused[number] = 0;
    int error = plugin->wait_for(packer->stream, computed);
    if (error == 0)
        error = plugin->pack_wire(packer->stream, wire_of(outgoing), outgoing->packing,
                                  &packer->refused[number], outgoing->h + outgoing->columns.begin,
                                  outgoing->width, rows, columns, packer->blocks);
    if (error == 0)
        error = plugin->record(packer->packed, packer->stream);
    if (error == 0)
        error = plugin->wait_for(to, packer->packed);
    return error ? error
                 : plugin->copy(to, outgoing->host, bytes, outgoing->packing, bytes, bytes, 1);
}

lh_sent lh_cuda_packer_sent(const lh_cuda_packer *packer, uint32_t number,
                            const lh_outgoing *outgoing) {
    const bool is_refused = packer->refused[number] != 0;
    return (lh_sent){.packed = is_refused ? NULL : (const uint8_t *)outgoing->host,
                     .is_refused = is_refused};
}
