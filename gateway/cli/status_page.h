/* A fleet as a page for a terminal: what is served, each chain with its stages and links in the
 * order of the ring, what holds it back, and the workers that have no part in it. Pure. Thread:
 * any. */
#pragma once

#include "common/base/text_buffer.h"
#include "gateway/cli/fleet_document.h"

typedef struct lh_status_page_style {
    uint32_t width; /* at least 60 are used */
    bool has_colours;
} lh_status_page_style;

/* tokens_per_s: below 0 where it is not known yet. LH_ERR_NO_MEMORY. */
lh_status lh_status_page_render(const lh_fleet_document *document, double tokens_per_s,
                                const lh_status_page_style *style, lh_text_buffer *out);
