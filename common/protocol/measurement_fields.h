/* Measurements as JSON (CONTROL.md): what a worker reports, and what GET /fleet shows. A number
 * that the other side would not take is written as 0, unknown, or as the most that it takes.
 * Thread: any. */
#pragma once

#include "common/json/json_fields.h"

extern const lh_json_record lh_machine_speed_record;   /* lh_machine_speed; null: not measured */
extern const lh_json_record lh_compute_profile_record; /* lh_compute_profile; null: likewise */
/* lh_hop_profile, whatever `present` says; whoever has one marks the field with it. */
extern const lh_json_record lh_hop_profile_record;
