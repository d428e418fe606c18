/* Findings for people. Thread: any. */
#pragma once

#include "common/doctor/findings.h"

/* A line for each, wrapped at `width` columns where it is at least 40, what to do below it, and one
 * line that counts. LH_ERR_NO_MEMORY. */
lh_status lh_findings_render_text(const lh_findings *findings, unsigned width, bool has_colours,
                                  lh_text_buffer *out);
