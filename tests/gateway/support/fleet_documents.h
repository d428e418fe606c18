/* GET /fleet of two workers that are well, and the same with a fault. For tests of what commands
 * make of it. */
#pragma once

#include "gateway/cli/fleet_document.h"

#include <jansson.h>

#define SOUND_FLEET TEST_SOURCE_DIR "/gateway/cli/sound_fleet.json"

/* The caller releases it. */
json_t *load_fleet(const char *path);
/* Puts a value, as JSON text, at a place such as "workers.0.host.disk_free_bytes". */
void plant(json_t *fleet, const char *place, const char *value);
/* As a command reads it; the caller resets it. */
lh_fleet_document document_of(const json_t *fleet);
