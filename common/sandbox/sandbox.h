/* A program gives up what it will not need, before it reads a byte that somebody else has made: so
 * a fault in what parses models, requests or certificates finds a process that can open its own
 * files, listen on its own ports, and connect. Five parts, each of which holds without the others:
 *
 *     no_new_privs   nothing that is executed gains rights
 *     capabilities   root's rights, but for those that opening files and ports takes
 *     not dumpable   no core dump, and no debugger of the same user: keys stay in memory
 *     Landlock       paths, ports to listen on, signals to others (landlock.h)
 *     seccomp        system calls (syscall_filter.h)
 *
 * What it does not do: bound to whom the program connects (an assignment may name any address), or
 * keep it from what is open already. Kernels and containers that lack a part are common, so the
 * program runs without that part, and says so. */
#pragma once

#include "common/base/status.h"
#include "common/sandbox/sandbox_rules.h"

#include <stdbool.h>

/* False where the program was built with a sanitizer, whose runtime needs more than a filter would
 * let through. */
bool lh_sandbox_is_built_in(void);

/* Gives up all that `rules` and lh_sandbox_rules_allow_system do not name, and logs one line of
 * what is in force; or one that says that nothing is, where rules->is_off. `room` is whose line
 * that is. Once, while the process has one thread: Landlock holds for this thread and those that it
 * starts. LH_ERR_NO_MEMORY; LH_ERR_NOT_FOUND: a folder to write to is not there; LH_ERR_IO: the
 * kernel refuses a rule. What was given up before an error stays so. */
lh_status lh_sandbox_enter(lh_sandbox_rules *rules, const char *room, lh_error *error);
