/* What is not needed would make any sum wrong. */
#include "tests/worker/support/own_weights.h"

#include <stdlib.h>
#include <string.h>

typedef struct copying {
    const uint8_t *from;
    uint8_t *to;
    const lh_model_config *config;
    lh_layer_range range;
    lh_division division;
} copying;

/* lh_tensor_visitor */
static lh_status copy_tensor(void *context, lh_tensor_role role, uint32_t layer,
                             const lh_gguf_tensor *tensor, lh_error *error) {
    const copying *c = context;
    lh_tensor_slice slices[LH_TENSOR_PARTS_MAX];
    (void)layer;
    (void)error;
    const uint32_t count =
        lh_parameters_slices(c->config, c->range, &c->division, role, tensor, slices);
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < slices[i].count; j++) {
            const uint64_t at = tensor->offset + slices[i].offset + j * slices[i].stride;
            memcpy(c->to + at, c->from + at, slices[i].bytes);
        }
    return LH_OK;
}

uint8_t *own_weights(const uint8_t *file, size_t length, const lh_gguf *gguf,
                     const lh_model_config *config, lh_layer_range range,
                     const lh_membership *membership) {
    const size_t header = (size_t)lh_gguf_data_offset(gguf);
    copying c = {.from = file, .to = malloc(length), .config = config, .range = range};
    if (!c.to)
        abort();
    memcpy(c.to, file, header);
    memset(c.to + header, 0x35, length - header); /* small numbers in every type */
    lh_status status = lh_division_make(config, membership, &c.division, NULL);
    if (status == LH_OK)
        status = lh_model_visit_tensors(gguf, config, range, copy_tensor, &c, NULL);
    if (status == LH_OK)
        return c.to;
    free(c.to);
    return NULL;
}
