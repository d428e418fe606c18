/* A string. */
#include "gateway/engine/layers_json.h"

json_t *lh_layers_render(uint32_t first_layer, uint32_t last_layer) {
    return json_sprintf("%u-%u", first_layer, last_layer - 1);
}
