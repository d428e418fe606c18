/* The words about drivers are for whoever has just put a card into a machine. */
#include "worker/compute/cuda/cuda_device.h"

#include "worker/compute/cuda/cuda_queue.h"

/* Turing: the oldest with tensor cores for int8, and for which machine code is made. */
#define CAPABILITY_MIN 75u
/* Two rows that see 131,072 positions of a model with 64 heads of 128 have blocks of threads enough
 * for any GPU. */
#define SCRATCH_BYTES ((size_t)64 << 20)
/* Of CUDA 13. */
#define DRIVER_MIN "580"

static lh_status check(const lh_cuda_plugin *plugin, int number, int error_number, int count,
                       lh_error *error) {
    if (error_number != 0) {
        return lh_fail(
            error, LH_ERR_UNSUPPORTED,
            "CUDA does not start: %s (is NVIDIA's driver %s or newer there, and may this "
            "user open /dev/nvidia*? nvidia-smi tells)",
            plugin->error_text(error_number), DRIVER_MIN);
    }
    if (count == 0)
        return lh_fail(error, LH_ERR_UNSUPPORTED, "the driver knows of no GPU");
    if (number >= count) {
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "there is no GPU %d: the driver knows of %d, 0-%d", number, count,
                       count - 1);
    }
    return LH_OK;
}

static int64_t free_bytes_of(const lh_device *base) {
    const lh_cuda_device *device = (const lh_cuda_device *)base;
    uint64_t bytes;
    return lh_cuda_device_memory(device, &bytes, NULL) == LH_OK ? (int64_t)bytes : -1;
}

lh_status lh_cuda_device_init(const lh_cuda_plugin *plugin, int number, const char *cublas,
                              lh_cuda_device *device, lh_error *error) {
    int count = 0, error_number = plugin->count_devices(&count);
    lh_status status = check(plugin, number, error_number, count, error);
    if (status != LH_OK)
        return status;
    *device = (lh_cuda_device){.device = lh_cuda_queue_device,
                               .plugin = plugin,
                               .number = number,
                               .cublas = cublas,
                               .scratch_bytes = SCRATCH_BYTES};
    device->device.free_bytes = free_bytes_of;
    error_number = plugin->describe(number, &device->facts);
    if (error_number != 0) {
        return lh_fail(error, LH_ERR_UNSUPPORTED, "GPU %d cannot be used: %s", number,
                       plugin->error_text(error_number));
    }
    const lh_cuda_facts *facts = &device->facts;
    if (facts->major * 10 + facts->minor < CAPABILITY_MIN) {
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "GPU %d, %s, has compute capability %u.%u: 7.5 (Turing) is the oldest that "
                       "will do",
                       number, facts->name, facts->major, facts->minor);
    }
    return LH_OK;
}

lh_status lh_cuda_device_memory(const lh_cuda_device *device, uint64_t *free_bytes,
                                lh_error *error) {
    size_t free_now, total;
    int problem = device->plugin->use(device->number);
    if (problem == 0)
        problem = device->plugin->memory_info(&free_now, &total);
    if (problem != 0) {
        return lh_fail(error, LH_ERR_UNAVAILABLE, "GPU %d does not tell its free memory: %s",
                       device->number, device->plugin->error_text(problem));
    }
    *free_bytes = free_now;
    return LH_OK;
}
