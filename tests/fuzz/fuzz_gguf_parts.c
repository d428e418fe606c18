/* Parts of a model that say of themselves what the input says: what is merged can be parsed, and
 * has each tensor once, within its part. */
#include "common/gguf/gguf_merge.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 4u

static void need(bool condition) {
    if (!condition)
        abort();
}

typedef struct input {
    const uint8_t *bytes;
    size_t left;
} input;

static uint8_t take(input *from) {
    if (from->left == 0)
        return 0;
    from->left--;
    return *from->bytes++;
}

/* Mostly the right number. */
static uint32_t about(input *from, uint32_t right) {
    uint8_t byte = take(from);
    return byte < 240 ? right : byte;
}

static void put_metadata(gguf_writer *writer, input *from) {
    static const char *const keys[] = {"general.name", "a", "split.x", "z"};
    for (uint32_t i = 0, mask = take(from); i < 4; i++) {
        if (mask >> i & 1)
            gguf_writer_u32(writer, keys[i], take(from) & 1);
        if (mask >> (i + 4) & 1)
            gguf_writer_text(writer, keys[i] + 1, "text");
    }
}

static void put_tensors(gguf_writer *writer, input *from, uint32_t count) {
    static const uint8_t bytes[1024];
    for (uint32_t i = 0; i < count; i++) {
        uint8_t byte = take(from);
        char name[3] = {(char)('a' + byte % 16), (char)('a' + take(from) % 16), '\0'};
        uint64_t shape[2] = {1 + (byte >> 4), 1 + byte % 4};
        gguf_writer_tensor_bytes(writer, name, byte == 255 ? 99 : LH_DTYPE_F32, 2, shape, bytes,
                                 shape[0] * shape[1] * 4);
    }
}

static void check(const lh_gguf_merged *merged, lh_gguf *const *parts, const size_t *lengths,
                  uint32_t count) {
    lh_gguf *gguf;
    size_t tensors = 0;
    need(lh_gguf_parse(merged->header, merged->header_bytes, merged->file_bytes, &gguf, NULL) ==
         LH_OK);
    need(lh_gguf_data_offset(gguf) == merged->header_bytes);
    for (uint32_t i = 0; i < count; i++)
        tensors += lh_gguf_tensor_count(parts[i]);
    need(lh_gguf_tensor_count(gguf) == tensors);
    for (size_t i = 0; i < tensors; i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        const lh_gguf_place *place = &merged->places[i];
        need(place->part < count && place->offset + tensor->bytes <= lengths[place->part]);
    }
    lh_gguf_destroy(gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input from = {data, size};
    uint8_t *files[PARTS_MAX];
    size_t lengths[PARTS_MAX];
    lh_gguf *parts[PARTS_MAX];
    uint32_t counts[PARTS_MAX], total = 0, count = 2 + take(&from) % (PARTS_MAX - 1), parsed = 0;
    size_t failing = take(&from) % 32;
    for (uint32_t i = 0; i < count; i++)
        total += counts[i] = take(&from) % 4;
    for (uint32_t i = 0; i < count; i++) {
        gguf_writer *writer = gguf_writer_create(1);
        gguf_writer_u16(writer, "split.count", (uint16_t)about(&from, count));
        put_metadata(writer, &from);
        gguf_writer_u16(writer, "split.no", (uint16_t)about(&from, i));
        if (i == 0 && take(&from) & 1)
            gguf_writer_set_alignment(writer, 64);
        gguf_writer_i32(writer, "split.tensors.count", (int32_t)about(&from, total));
        put_tensors(writer, &from, counts[i]);
        files[i] = gguf_writer_finish(writer, &lengths[i]);
        gguf_writer_destroy(writer);
        if (parsed == i &&
            lh_gguf_parse(files[i], lengths[i], lengths[i], &parts[i], NULL) == LH_OK)
            parsed++;
    }
    if (parsed == count) {
        lh_gguf_merged merged;
        lh_error error = {0};
        failing_malloc_arm(failing);
        lh_status status = lh_gguf_merge((const lh_gguf *const *)parts, count, &merged, &error);
        (void)failing_malloc_disarm();
        if (status == LH_OK)
            check(&merged, parts, lengths, count);
        else
            need(error.status == status && error.message[0]);
        lh_gguf_merged_reset(&merged);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i < parsed)
            lh_gguf_destroy(parts[i]);
        free(files[i]);
    }
    return 0;
}
