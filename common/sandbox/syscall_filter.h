/* Which system calls the program may make from now on (seccomp(2), by libseccomp). */
#pragma once

#include "common/base/status.h"
#include "common/sandbox/sandbox_rules.h"

/* Holds for all threads, and is never lifted. Needs no_new_privs. LH_ERR_UNSUPPORTED: the kernel
 * has none of it, or a container forbids it; LH_ERR_NO_MEMORY. */
lh_status lh_syscall_filter_load(const lh_sandbox_rules *rules, lh_error *error);
