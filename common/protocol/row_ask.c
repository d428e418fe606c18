/* Copies of an ask: its lists in memory of the carrier, and what is kept of it for its answer. */
#include "common/protocol/row_ask.h"

#include <string.h>

static size_t padded(size_t bytes) {
    return (bytes + 7u) & ~(size_t)7u;
}

size_t lh_row_ask_list_bytes(const lh_row_ask *ask) {
    const lh_sampling *sampling = &ask->sampling;
    if (!ask->draws)
        return 0;
    return padded(sampling->bias_count * sizeof *sampling->biases) +
           padded(sampling->count_count * sizeof *sampling->counts);
}

void lh_row_ask_move_lists(lh_row_ask *ask, void *memory) {
    lh_sampling *sampling = &ask->sampling;
    size_t bias_bytes = sampling->bias_count * sizeof *sampling->biases,
           count_bytes = sampling->count_count * sizeof *sampling->counts;
    uint8_t *biases = memory, *counts = biases + padded(bias_bytes);
    if (!ask->draws)
        return;
    if (bias_bytes > 0)
        memcpy(biases, sampling->biases, bias_bytes);
    if (count_bytes > 0)
        memcpy(counts, sampling->counts, count_bytes);
    sampling->biases = (const lh_token_bias *)(const void *)biases;
    sampling->counts = (const lh_token_count *)(const void *)counts;
}

lh_row_due lh_row_ask_due(const lh_row_ask *ask) {
    return (lh_row_due){.scoring = ask->scoring,
                        .pooling = ask->pooling,
                        .top_logprobs = ask->draws ? ask->sampling.top_logprobs : 0,
                        .draws = ask->draws};
}
