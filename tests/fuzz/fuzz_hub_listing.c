/* A hub's list, and what is picked of it: names are safe, parts complete and in order. */
#include "gateway/models/hub_listing_json.h"
#include "gateway/models/model_reference.h"

#include <stdlib.h>
#include <string.h>

static void need(bool condition) {
    if (!condition)
        abort();
}

static void check_file(const lh_hub_file *file) {
    const char *slash = strrchr(file->path, '/');
    need(strnlen(file->path, sizeof file->path) < sizeof file->path && file->bytes > 0);
    need(lh_model_name_is_safe(slash ? slash + 1 : file->path));
    need(file->path[0] != '/' && !strstr(file->path, ".."));
}

static void pick(const lh_hub_listing *listing, const char *quantization) {
    lh_hub_model model;
    lh_error error = {.status = LH_OK};
    if (lh_hub_listing_pick(listing, quantization, &model, &error) != LH_OK) {
        need(error.message[0] != '\0');
        return;
    }
    need(model.count >= 1 && model.count <= LH_GGUF_PARTS_MAX);
    for (uint32_t i = 0; i < model.count; i++) {
        lh_gguf_part_name name;
        lh_gguf_part_name_parse(model.files[i]->path, &name);
        need(name.count == model.count && name.number == i + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lh_hub_listing listing = {0};
    lh_error error = {.status = LH_OK};
    /* Two pages, cut by a NUL. */
    const uint8_t *cut = size ? memchr(data, 0, size) : NULL;
    size_t first = cut ? (size_t)(cut - data) : size;
    lh_status status = lh_hub_listing_parse((const char *)data, first, &listing, &error);
    if (cut)
        lh_hub_listing_parse((const char *)cut + 1, size - first - 1, &listing, &error);
    need(status == LH_OK || error.message[0] != '\0');
    for (size_t i = 0; i < listing.count; i++)
        check_file(&listing.files[i]);
    pick(&listing, "");
    pick(&listing, "Q4_K_M");
    pick(&listing, "b");
    lh_hub_listing_reset(&listing);
    return 0;
}
