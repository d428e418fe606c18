/* Defaults, and what options change of them. */
#include "common/http2/limits.h"

#include "common/net/link_warmup.h"

#include <stdio.h>

lh_h2_limits lh_h2_default_limits(void) {
    return (lh_h2_limits){.window_bytes = 16u << 20,
                          .streams_max = 256,
                          .connections_max = 64,
                          .new_connections_max = 128,
                          .header_bytes_max = 16u << 10,
                          .ping_interval_ms = 500,
                          .dead_after_ms = 2000,
                          .connect_timeout_ms = 3000,
                          .renew_after = 1u << 29,
                          .probe_bytes_max = LH_LINK_PROBE_BYTES_MAX};
}

lh_h2_limits lh_h2_limits_of_program(const lh_program_options *options) {
    lh_h2_limits limits = lh_h2_default_limits();
    limits.probe_percent = (uint32_t)options->hop_probe_budget;
    snprintf(limits.congestion_control, sizeof limits.congestion_control, "%s",
             options->congestion_control);
    return limits;
}
