/* How fast a GPU's memory is to a copy within it, which is what its data sheet's bandwidth comes to
 * in practice: one line of JSON,
 *
 *     {"name": "NVIDIA ...", "capability": "9.0", "bytes_per_s": read and written}
 *
 * the best of some copies. */
#include "common/base/clock.h"
#include "common/base/options.h"
#include "worker/compute/cuda/cuda_device.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct flags {
    const char *cuda_library;
    int64_t device, bytes, copies;
} flags;

#define FIELD(name) offsetof(flags, name)
static const lh_option options[] = {
    {"device", LH_OPTION_NUMBER, FIELD(device), "0", "N", 0, 63, NULL, "Which GPU"},
    {"cuda-library", LH_OPTION_TEXT, FIELD(cuda_library), "", "PATH", 0, 0, NULL,
     "As the worker's"},
    {"bytes", LH_OPTION_BYTES, FIELD(bytes), "2G", "BYTES", 1, (int64_t)1 << 40, NULL,
     "Of each copy: many times the GPU's caches"},
    {"copies", LH_OPTION_NUMBER, FIELD(copies), "20", "N", 1, 10000, NULL, "How many"},
};
static const lh_option_table table = {.program = "gpu_memory",
                                      .summary = "How fast a GPU's memory is to a copy",
                                      .options = options,
                                      .count = sizeof options / sizeof options[0]};

static void die(const char *what, const char *why) {
    fprintf(stderr, "gpu_memory: %s: %s\n", what, why);
    exit(1);
}

static void check(const lh_cuda_plugin *plugin, const char *what, int problem) {
    if (problem != 0)
        die(what, plugin->error_text(problem));
}

/* The best of the copies. */
static int64_t copy_us(const lh_cuda_plugin *plugin, const flags *f) {
    const size_t bytes = (size_t)f->bytes;
    void *from, *to;
    lh_cuda_stream stream;
    int64_t best_us = INT64_MAX;
    check(plugin, "memory", plugin->allocate(&from, bytes));
    check(plugin, "memory", plugin->allocate(&to, bytes));
    check(plugin, "a stream", plugin->create_stream(&stream, false));
    check(plugin, "clearing", plugin->clear(stream, from, bytes));
    check(plugin, "clearing", plugin->finish_stream(stream));
    for (int64_t i = 0; i < f->copies; i++) {
        const int64_t begin_us = lh_clock_us();
        check(plugin, "a copy", plugin->copy(stream, to, bytes, from, bytes, bytes, 1));
        check(plugin, "a copy", plugin->finish_stream(stream));
        const int64_t us = lh_clock_us() - begin_us;
        best_us = us < best_us ? us : best_us;
    }
    plugin->destroy_stream(stream);
    plugin->release(to);
    plugin->release(from);
    return best_us > 0 ? best_us : 1;
}

int main(int argc, char **argv) {
    flags f;
    lh_error error;
    lh_option_action action;
    const lh_cuda_plugin *plugin;
    lh_cuda_device device;
    if (lh_options_parse(&table, argc, argv, &f, stdout, &action, &error) != LH_OK)
        die("options", error.message);
    if (action == LH_OPTIONS_EXIT)
        return 0;
    if (lh_cuda_library_open(f.cuda_library, &plugin, &error) != LH_OK ||
        lh_cuda_device_init(plugin, (int)f.device, "", &device, &error) != LH_OK)
        die("device", error.message);
    check(plugin, "the GPU", plugin->use((int)f.device));
    printf("{\"name\": \"%s\", \"capability\": \"%u.%u\", \"bytes_per_s\": %.0f}\n",
           device.facts.name, device.facts.major, device.facts.minor,
           2e6 * (double)f.bytes / (double)copy_us(plugin, &f));
    return 0;
}
