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

/* The folder that the program lies in. */
static bool program_folder(char folder[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return slash;
}

typedef struct lh_opening {
    bool is_there; /* a file was, and this became of it */
    lh_status status;
    const lh_cuda_plugin **plugin;
    lh_error *error;
} lh_opening;

static void try_file(lh_opening *opening, const char *file) {
    void *library;
    if (opening->is_there || !open_file(file, &library, &opening->status, opening->error))
        return;
    opening->is_there = true;
    if (opening->status == LH_OK)
        opening->status = check(library, file, opening->plugin, opening->error);
}

static void try_program_folder(lh_opening *opening) {
    static const char *const places[] = {"/" LH_CUDA_LIBRARY, "/../lib/longhaul/" LH_CUDA_LIBRARY};
    char folder[PATH_MAX], file[PATH_MAX + sizeof "/../lib/longhaul/" LH_CUDA_LIBRARY];
    for (size_t i = 0; i < sizeof places / sizeof places[0] && program_folder(folder); i++) {
        snprintf(file, sizeof file, "%s%s", folder, places[i]);
        try_file(opening, file);
    }
}

lh_status lh_cuda_library_open(const char *path, const lh_cuda_plugin **plugin, lh_error *error) {
    lh_opening opening = {.status = LH_OK, .plugin = plugin, .error = error};
    if (!path[0])
        try_program_folder(&opening);
    try_file(&opening, path[0] ? path : LH_CUDA_LIBRARY);
    if (opening.is_there)
        return opening.status;
    if (path[0])
        return lh_fail(error, LH_ERR_NOT_FOUND, "there is no file %s", path);
    return lh_fail(
        error, LH_ERR_NOT_FOUND,
        "%s is neither beside the worker nor among the system's libraries: it comes with "
        "a build that found a CUDA toolkit (deploy/cuda-toolkit)",
        LH_CUDA_LIBRARY);
}
