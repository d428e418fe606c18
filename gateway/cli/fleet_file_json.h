/* The file that describes a fleet for `longhaul-gateway plan` (docs/OPERATING.md has its format).
 * Thread: one at a time. */
#pragma once

#include "gateway/plan/fleet_map.h"

#include <stddef.h>

/* Bytes of one such file. */
#define LH_FLEET_FILE_BYTES_MAX (4u << 20)

/* Reads the file into *map, which is empty ({0}) or, where it is `more`, holds a fleet already, to
 * which this one's sites, links and machines are added. name: the file's, for messages. The map's
 * machines are allocated; lh_fleet_file_reset frees them, also after a failure.
 * LH_ERR_MALFORMED: not JSON; LH_ERR_INVALID: a field is wrong, which the message names with its
 * path; LH_ERR_NO_MEMORY. Numbers that do not fit each other are left to lh_fleet_map_check. */
lh_status lh_fleet_file_parse(const char *name, const char *bytes, size_t length, bool is_more,
                              lh_fleet_map *map, lh_error *error);
void lh_fleet_file_reset(lh_fleet_map *map);
/* "0-9" as [0, 10), of a model with so many layers; "3" is 3-3. */
bool lh_fleet_file_parse_layers(const char *text, uint32_t layers, lh_map_layers *parsed);
