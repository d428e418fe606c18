/* Measurements as JSON (CONTROL.md): what a worker reports, and what GET /fleet shows. Thread: any. */
#pragma once

#include "common/status.h"
#include "worker/api/measurements.h"

#include <jansson.h>

/* Each gives a new value, which the caller releases or hands on; NULL: out of memory. JSON null where
 * nothing is measured, or there is no next hop. A number that the other side would not take is
 * written as 0, unknown, or as the most that it takes. */
json_t *lh_machine_speed_render(const lh_machine_speed *speed);
json_t *lh_compute_profile_render(const lh_compute_profile *profile);
json_t *lh_hop_profile_render(const lh_hop_profile *profile);

/* Reads what a peer has sent, where null and NULL (the field is absent) are "not measured". A field of a hop
 * other than `connected` may be absent. LH_ERR_INVALID: a number that is none, or is out of range, points
 * that do not ascend or are too many; the message names the field below `path` ("next."). */
lh_status lh_machine_speed_parse(const json_t *value, const char *path, lh_machine_speed *speed,
                                 lh_error *error);
lh_status lh_compute_profile_parse(const json_t *value, const char *path, lh_compute_profile *profile,
                                   lh_error *error);
lh_status lh_hop_profile_parse(const json_t *value, const char *path, lh_hop_profile *profile,
                               lh_error *error);
