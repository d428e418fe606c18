/* What the kernel says is free, and the environment. */
#include "worker/defaults.h"

#include "common/base/memory_gauge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where nobody knows what there is. */
#define UNKNOWN_BYTES ((int64_t)1 << 30)
/* The planner wants some; no layer fits into so little. */
#define LEAST_BYTES ((int64_t)1 << 20)

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Three quarters of it all, for other programs and the page cache want some as well; of what is
 * free, what is left by the KV cache and by a sixteenth for the steps. */
int64_t lh_default_memory_of(int64_t all_bytes, int64_t free_bytes, int64_t kv_bytes) {
    int64_t bytes = all_bytes > 0 ? all_bytes / 4 * 3 : UNKNOWN_BYTES;
    if (free_bytes >= 0)
        bytes = least(bytes, free_bytes - free_bytes / 16 - kv_bytes);
    return bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
}

int64_t lh_default_memory_bytes(int64_t kv_bytes) {
    lh_memory_gauge *gauge = lh_memory_gauge_open("/proc", "/sys/fs/cgroup");
    int64_t bytes =
        lh_default_memory_of(lh_memory_gauge_all(gauge), lh_memory_gauge_free(gauge), kv_bytes);
    lh_memory_gauge_close(gauge);
    return bytes;
}

lh_status lh_default_cache_dir(char folder[LH_CACHE_DIR_BYTES], lh_error *error) {
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME"),
               *systemd = getenv("CACHE_DIRECTORY");
    int length;
    if (systemd && systemd[0]) /* several are separated by colons */
        length = snprintf(folder, LH_CACHE_DIR_BYTES, "%.*s", (int)strcspn(systemd, ":"), systemd);
    else if (xdg && xdg[0])
        length = snprintf(folder, LH_CACHE_DIR_BYTES, "%s/longhaul", xdg);
    else if (home && home[0])
        length = snprintf(folder, LH_CACHE_DIR_BYTES, "%s/.cache/longhaul", home);
    else
        return lh_fail(error, LH_ERR_INVALID, "--cache-dir is needed, since HOME is not set");
    if (length < 0 || (size_t)length >= LH_CACHE_DIR_BYTES)
        return lh_fail(error, LH_ERR_INVALID,
                       "--cache-dir is needed, since the home folder's path is too long");
    return LH_OK;
}
