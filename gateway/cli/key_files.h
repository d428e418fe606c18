/* Who may read the files with the gateway's secrets, on the machine on which a command runs.
 * Thread: any. */
#pragma once

#include "common/doctor/findings.h"

/* Files, and folders with everything in them; "" is left out. Adds what is to be done, or one
 * finding that they are fine, or that nobody can say. */
void lh_key_files_check(const char *const *paths, size_t count, lh_findings *findings);
