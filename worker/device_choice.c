/* "cuda" is "cuda:0". */
#include "worker/device_choice.h"

#include "common/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than a machine holds. */
#define DEVICES_MAX 64

static bool parse_number(const char *text, int *number) {
    static const char prefix[] = "cuda:";
    char *end;
    *number = 0;
    if (strcmp(text, "cuda") == 0)
        return true;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 || text[sizeof prefix - 1] < '0' ||
        text[sizeof prefix - 1] > '9')
        return false;
    long value = strtol(text + sizeof prefix - 1, &end, 10);
    *number = (int)value;
    return *end == '\0' && value < DEVICES_MAX;
}

static lh_status open_gpu(int number, const char *library, const char *cublas,
                          lh_device_choice *choice, lh_error *error) {
    const lh_cuda_plugin *plugin;
    uint64_t free_bytes;
    lh_status status = lh_cuda_library_open(library, &plugin, error);
    if (status == LH_OK)
        status = lh_cuda_device_init(plugin, number, cublas, &choice->gpu, error);
    if (status == LH_OK) /* the first call that opens the device */
        status = lh_cuda_device_memory(&choice->gpu, &free_bytes, error);
    if (status != LH_OK)
        return status;
    choice->is_gpu = true;
    snprintf(choice->text, sizeof choice->text, "cuda:%d %s", number, choice->gpu.facts.name);
    return LH_OK;
}

lh_status lh_device_choice_make(const char *text, const char *library, const char *cublas,
                                lh_device_choice *choice, lh_error *error) {
    int number;
    lh_error why;
    *choice = (lh_device_choice){.text = "cpu"};
    if (strcmp(text, "cpu") == 0)
        return LH_OK;
    if (strcmp(text, "auto") == 0) {
        if (open_gpu(0, library, cublas, choice, &why) != LH_OK)
            lh_log(LH_LOG_DEBUG, "worker", "computes on processors reason=\"%s\"", why.message);
        return LH_OK;
    }
    if (!parse_number(text, &number)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--device: \"%s\" is none of auto, cpu, cuda and cuda:N", text);
    }
    lh_status status = open_gpu(number, library, cublas, choice, &why);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "--device %s: %s", text, why.message);
}

const lh_device *lh_device_choice_device(const lh_device_choice *choice) {
    return choice->is_gpu ? &choice->gpu.device : NULL;
}
