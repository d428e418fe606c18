/* The parts in their order, and the line of the log. */
#include "common/sandbox/sandbox.h"

#include "common/base/log.h"
#include "common/sandbox/capabilities.h"
#include "common/sandbox/landlock.h"
#include "common/sandbox/late_libraries.h"
#include "common/sandbox/syscall_filter.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define PART_BYTES 96 /* "abi7", or "off (...)" with what an errno is called */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED false
#endif

bool lh_sandbox_is_built_in(void) {
    return !IS_SANITIZED;
}

/* Of the links of /proc/self/task two are its own and its parent's, the others one a thread. */
static bool is_alone(void) {
    struct stat tasks;
    return stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink <= 3;
}

/* What a part of the sandbox came to; other errors than that the kernel has no such thing end the
 * program. */
static bool describe(char text[PART_BYTES], lh_status status, const char *in_force,
                     const lh_error *problem) {
    if (status == LH_OK)
        snprintf(text, PART_BYTES, "%s", in_force);
    else
        snprintf(text, PART_BYTES, "off (%.80s)", problem->message);
    return status == LH_OK || status == LH_ERR_UNSUPPORTED;
}

static lh_status set_process_flags(lh_error *error) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return lh_fail(error, LH_ERR_IO, "sandbox: no_new_privs: %s", strerror(errno));
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return lh_fail(error, LH_ERR_IO, "sandbox: not dumpable: %s", strerror(errno));
    return LH_OK;
}

/* Landlock first: the filter lets nobody change it. */
static lh_status enter(lh_sandbox_rules *rules, const char *room, lh_error *error) {
    char abi[16], landlock[PART_BYTES], seccomp[PART_BYTES];
    lh_error problem;
    uint64_t capabilities = 0;
    lh_late_libraries_load("/etc/nsswitch.conf");
    snprintf(abi, sizeof abi, "abi%d", lh_landlock_abi());
    lh_status status = set_process_flags(error);
    if (status == LH_OK)
        status = lh_capabilities_drop(rules, &capabilities, error);
    if (status != LH_OK)
        return status;
    lh_status of_landlock = lh_landlock_restrict(rules, &problem);
    assert(of_landlock != LH_OK || is_alone());
    if (!describe(landlock, of_landlock, abi, &problem))
        return lh_fail(error, of_landlock, "%s", problem.message);
    lh_status of_seccomp = lh_syscall_filter_load(rules, &problem);
    if (!describe(seccomp, of_seccomp, "on", &problem))
        return lh_fail(error, of_seccomp, "%s", problem.message);
    rules->has_landlock = of_landlock == LH_OK;
    rules->has_seccomp = of_seccomp == LH_OK;
    lh_log(of_landlock == LH_OK && of_seccomp == LH_OK ? LH_LOG_INFO : LH_LOG_WARN, room,
           "sandbox seccomp=%s landlock=%s no_new_privs=on dumpable=off capabilities=%" PRIx64,
           seccomp, landlock, capabilities);
    return LH_OK;
}

lh_status lh_sandbox_enter(lh_sandbox_rules *rules, const char *room, lh_error *error) {
    if (rules->is_off || IS_SANITIZED) {
        lh_log(LH_LOG_WARN, room,
               "sandbox off (%s): a fault in this program can do all that its "
               "user can",
               rules->off_reason ? rules->off_reason
               : rules->is_off   ? "--sandbox off"
                                 : "built with a sanitizer");
        return LH_OK;
    }
    lh_sandbox_rules_allow_system(rules);
    if (rules->is_short)
        return lh_fail(error, LH_ERR_NO_MEMORY, "sandbox: no memory for its rules");
    return enter(rules, room, error);
}
