/* sysconf and the environment. */
#include "worker/defaults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Three quarters, for the KV cache, other programs and the page cache want some as well. */
int64_t lh_default_memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (int64_t)pages * bytes / 4 * 3 : (int64_t)1 << 30;
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
