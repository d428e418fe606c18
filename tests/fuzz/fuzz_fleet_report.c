/* A worker's report from a hostile worker: nothing but a verdict may come of it. */
#include "gateway/fleet_json.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lh_worker_report report;
    lh_error error;
    if (size > LH_REPORT_BYTES_MAX)
        return 0;
    if (lh_fleet_json_parse_report("worker", (const char *)data, size, &report, &error) == LH_OK &&
        (!lh_fleet_json_is_name(report.site) || report.threads == 0 ||
         (report.kv.present && report.kv.page_positions == 0) ||
         strlen(report.plain_address) >= LH_ADDRESS_BYTES))
        abort();
    return 0;
}
