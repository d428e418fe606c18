/* A run of layers as JSON. */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* Layers [first_layer, last_layer), at least one, as the log writes them: "0-14", both included.
 * The caller's; NULL: no memory. */
json_t *lh_layers_render(uint32_t first_layer, uint32_t last_layer);
