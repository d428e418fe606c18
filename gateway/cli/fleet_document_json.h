/* The text of GET /fleet, read. Thread: one at a time. */
#pragma once

#include "gateway/cli/fleet_document.h"

/* After LH_OK the caller resets the document. LH_ERR_MALFORMED: it is no JSON object, or has no
 * "state": no gateway of ours has written it; LH_ERR_LIMIT: more workers, chains, stages or links
 * than a fleet has; LH_ERR_NO_MEMORY. */
lh_status lh_fleet_document_parse(const char *bytes, size_t length, lh_fleet_document *document,
                                  lh_error *error);
