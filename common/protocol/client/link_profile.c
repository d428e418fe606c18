/* Field by field. */
#include "common/protocol/client/link_profile.h"

lh_hop_profile lh_link_profile(const lh_h2_client_link *link, bool connected) {
    return (lh_hop_profile){.present = true,
                            .connected = connected,
                            .refused = link->refused,
                            .round_trip_us = link->estimate.round_trip_us,
                            .bytes_per_us = link->estimate.bytes_per_us,
                            .bytes_per_us_is_bound = link->estimate.bytes_per_us_is_bound,
                            .bytes_per_us_deviation = link->estimate.bytes_per_us_deviation,
                            .ready_bytes = (double)link->ready_bytes,
                            .age_us = link->estimate.age_us,
                            .bytes_sent = link->bytes_sent,
                            .probe_bytes_sent = link->probe_bytes_sent};
}
