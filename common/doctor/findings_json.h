/* Findings for programs. Thread: any. */
#pragma once

#include "common/doctor/findings.h"

/* {"fine": bool, "findings": [{"check", "subject", "verdict": "fine"|"unknown"|"to_do", "found",
 * "to_do"}]} and a line feed; subject and to_do are null where there is none. LH_ERR_NO_MEMORY. */
lh_status lh_findings_render_json(const lh_findings *findings, lh_text_buffer *out);
