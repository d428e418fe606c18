/* A fleet's status as one JSON object, for scripts: what the page (status_page.h) says, in figures.
 * Thread: any. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/cli/fleet_document.h"

/* One line. tokens_per_s: below 0: null. LH_ERR_NO_MEMORY. docs/OPERATING.md has the fields. */
lh_status lh_status_json_render(const lh_fleet_document *document, double tokens_per_s,
                                lh_text_buffer *out);
