/* Measurements as JSON (CONTROL.md): what a worker reports, and what GET /fleet shows. Thread: any.
 */
#pragma once

#include "common/json/json_reader.h"
#include "common/protocol/measurements.h"

/* Each gives a new value, which the caller releases or hands on; NULL: out of memory. JSON null
 * where nothing is measured, or there is no next hop. A number that the other side would not take
 * is written as 0, unknown, or as the most that it takes. */
json_t *lh_machine_speed_render(const lh_machine_speed *speed);
json_t *lh_compute_profile_render(const lh_compute_profile *profile);
json_t *lh_hop_profile_render(const lh_hop_profile *profile);

/* Each reads what a peer has sent in this field of a report; null and an absent field are "not
 * measured". A field of a hop other than `connected` may be absent. Refused are numbers that are
 * none or out of range, points that do not ascend or are too many; nothing is measured then. */
void lh_machine_speed_read(const lh_json_reader *reader, const char *field,
                           lh_machine_speed *speed);
void lh_compute_profile_read(const lh_json_reader *reader, const char *field,
                             lh_compute_profile *profile);
void lh_hop_profile_read(const lh_json_reader *reader, const char *field, lh_hop_profile *profile);
