/* The first and only GPU. */
#include "tests/worker/support/emulated_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

lh_cuda_device emulated_gpu(const char *library) {
    const lh_cuda_plugin *plugin;
    lh_cuda_device device = {0};
    lh_error error;
    lh_status status = lh_cuda_library_open(library, &plugin, &error);
    if (status == LH_OK)
        status = lh_cuda_device_init(plugin, 0, "", &device, &error);
    if (status != LH_OK)
        fail_msg("%s", error.message);
    return device;
}
