/* Landlock (landlock(7)): the kernel lets this process open what the rules name and no more, listen
 * on their ports alone, and signal or trace nobody outside. Nothing lifts that again. */
#pragma once

#include "common/base/status.h"
#include "common/sandbox/sandbox_rules.h"

/* The version of the kernel's interface; 0: there is none, or a container forbids it (errno). */
int lh_landlock_abi(void);

/* Holds for this thread and those that it starts. Needs no_new_privs. As much of it as the kernel
 * has: ports from ABI 4 (Linux 6.7), signals from 6 (6.12). LH_ERR_UNSUPPORTED: the kernel has none
 * of it; LH_ERR_NOT_FOUND: a folder to write to is not there; LH_ERR_IO: the kernel refuses a rule.
 */
lh_status lh_landlock_restrict(const lh_sandbox_rules *rules, lh_error *error);
