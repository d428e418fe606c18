/* Findings on standard output. Thread: the program's only one. */
#pragma once

#include "common/doctor/findings.h"

/* As JSON, or as text as wide as the terminal is. LH_ERR_NO_MEMORY, also where a finding is
 * missing; LH_ERR_IO. */
lh_status lh_findings_print(const lh_findings *findings, bool as_json, lh_error *error);
