/* dlopen finds names without a folder where the system keeps libraries. */
#include "worker/compute/cuda/cuda_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static lh_status check(void *library, const char *path, const lh_cuda_plugin **plugin,
                       lh_error *error) {
    lh_cuda_plugin_function *open_plugin;
    *(void **)&open_plugin = dlsym(library, LH_CUDA_PLUGIN_FUNCTION);
    if (!open_plugin)
        return lh_fail(error, LH_ERR_UNSUPPORTED, "%s is no library of Longhaul's kernels", path);
    *plugin = open_plugin();
    if ((*plugin)->version == LH_CUDA_PLUGIN_VERSION)
        return LH_OK;
    return lh_fail(error, LH_ERR_UNSUPPORTED,
                   "%s is of interface %u, this worker of %u: install both of one release", path,
                   (*plugin)->version, LH_CUDA_PLUGIN_VERSION);
}

/* false: there is no such file. */
static bool open_file(const char *path, void **library, lh_status *status, lh_error *error) {
    if (strchr(path, '/') && access(path, F_OK) != 0)
        return false;
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*library && !strchr(path, '/'))
        return false;
    if (!*library)
        *status = lh_fail(error, LH_ERR_UNSUPPORTED, "%s cannot be opened: %s", path, dlerror());
    return true;
}

lh_status lh_cuda_library_open(const char *path, const lh_cuda_plugin **plugin, lh_error *error) {
    char program[PATH_MAX], places[3][PATH_MAX + sizeof "/../lib/longhaul/" LH_CUDA_LIBRARY];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    snprintf(places[0], sizeof places[0], "%s/%s", program, LH_CUDA_LIBRARY);
    snprintf(places[1], sizeof places[1], "%s/../lib/longhaul/%s", program, LH_CUDA_LIBRARY);
    snprintf(places[2], sizeof places[2], "%s", LH_CUDA_LIBRARY);
    lh_status status = LH_OK;
    void *library;
    if (path[0]) {
        if (open_file(path, &library, &status, error))
            return status == LH_OK ? check(library, path, plugin, error) : status;
        return lh_fail(error, LH_ERR_NOT_FOUND, "there is no file %s", path);
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (open_file(places[i], &library, &status, error))
            return status == LH_OK ? check(library, places[i], plugin, error) : status;
    return lh_fail(
        error, LH_ERR_NOT_FOUND,
        "%s is neither beside the worker nor among the system's libraries: it comes with "
        "a build that found a CUDA toolkit (deploy/cuda-toolkit)",
        LH_CUDA_LIBRARY);
}
