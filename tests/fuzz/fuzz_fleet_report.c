/* A worker's report from a hostile worker: nothing but a verdict may come of it. */
#include "common/protocol/control/report_fields.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the cost model builds on. */
static int are_sound(const lh_compute_profile *compute, const lh_hop_profile *next) {
    int sound = compute->point_count <= LH_COMPUTE_POINTS_MAX;
    for (uint32_t i = 0; sound && i < compute->point_count; i++)
        sound = isfinite(compute->points[i].us) && compute->points[i].us >= 0 &&
                compute->points[i].rows > (i > 0 ? compute->points[i - 1].rows : 0);
    const double numbers[] = {compute->us_per_row_position,
                              compute->take_share,
                              compute->give_share,
                              compute->shard_us,
                              compute->step_us,
                              compute->draw_us,
                              compute->draw_more_us,
                              next->bytes_per_us,
                              next->bytes_per_us_deviation,
                              next->ready_bytes};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sound = sound && isfinite(numbers[i]) && numbers[i] >= 0;
    return sound && compute->age_us >= 0 && next->age_us >= 0 && next->round_trip_us >= 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lh_worker_report report;
    lh_error error;
    if (size > LH_CONTROL_BODY_BYTES_MAX)
        return 0;
    if (lh_worker_report_parse("worker", (const char *)data, size, &report, &error) == LH_OK &&
        (!lh_name_is_valid(report.site) || report.threads == 0 ||
         !are_sound(&report.compute, &report.next) ||
         (report.kv.present && report.kv.page_positions == 0) ||
         strlen(report.plain_address) >= LH_ADDRESS_BYTES))
        abort();
    return 0;
}
