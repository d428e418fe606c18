/* The file of `longhaul-gateway plan`: what is taken of it can be planned, or says why not. */
#include "gateway/cli/fleet_file_json.h"
#include "gateway/plan/layout_search.h"

#include <stdlib.h>

static void need(bool condition) {
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const lh_aim aim = {.goal = LH_GOAL_TPOT, .prompt_rows = 64, .sequences_max = 1};
    lh_fleet_map *map = calloc(1, sizeof *map);
    lh_layout_plan plan;
    lh_error error = {.status = LH_OK};
    need(map != NULL);
    lh_status status =
        lh_fleet_file_parse("fleet.json", (const char *)data, size, false, map, &error);
    need(status == LH_OK || error.message[0] != '\0');
    if (status == LH_OK && map->machine_count <= 6 && map->model.layers <= 12) {
        status = lh_layout_search(map, &aim, &plan, &error);
        need(status == LH_OK ? lh_layout_is_sound(&plan.layout, map) : error.message[0] != '\0');
    }
    lh_fleet_file_reset(map);
    free(map);
    return 0;
}
