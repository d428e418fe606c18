/* Each part is opened and parsed by itself; then their tensors are placed one behind the other. */
#include "common/gguf/gguf_file.h"

#include "common/gguf/gguf_merge.h"
#include "common/gguf/part_name.h"
#include "common/gguf/regular_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The header's length stands nowhere in it: what is read is doubled until the header is whole.
 * Vocabulary and merges of the largest models take some 20 MB. */
#define HEADER_BYTES_FIRST (4u << 20)
#define HEADER_BYTES_MAX   (256u << 20)

typedef struct part {
    lh_regular_file *file;
    uint8_t *header; /* the gguf points into it */
    lh_gguf *gguf;
} part;

struct lh_gguf_file {
    part *parts; /* [count]; of several, only their files are kept open */
    uint32_t count;
    lh_gguf_merged merged; /* of several */
    uint8_t *header;       /* the gguf points into it; of one, the part's */
    lh_gguf *gguf;
    uint64_t size;
};

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the model file");
}

/* ---- One file ---- */

static void forget_header(part *p) {
    lh_gguf_destroy(p->gguf);
    p->gguf = NULL;
    free(p->header);
    p->header = NULL;
}

/* The first `length` bytes of the file become its header in memory. */
static lh_status parse(part *p, const char *path, size_t length, lh_error *error) {
    lh_error problem;
    forget_header(p);
    p->header = malloc(length);
    if (!p->header)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the model file's header");
    lh_status status = lh_regular_file_read(p->file, 0, p->header, length, error);
    if (status != LH_OK)
        return status;
    status = lh_gguf_parse(p->header, length, lh_regular_file_size(p->file), &p->gguf, &problem);
    return status == LH_OK ? LH_OK
                           : lh_fail(error, status, "%.100s: %.200s", path, problem.message);
}

static lh_status read_header(part *p, const char *path, lh_error *error) {
    uint64_t size = lh_regular_file_size(p->file);
    uint64_t most = size < HEADER_BYTES_MAX ? size : HEADER_BYTES_MAX;
    uint64_t length = most < HEADER_BYTES_FIRST ? most : HEADER_BYTES_FIRST;
    lh_status status = parse(p, path, (size_t)length, error);
    while (status == LH_ERR_MALFORMED && length < most) {
        length = 2 * length < most ? 2 * length : most;
        status = parse(p, path, (size_t)length, error);
    }
    if (status == LH_OK) /* and no more of it than that */
        status = parse(p, path, (size_t)lh_gguf_data_offset(p->gguf), error);
    return status;
}

static lh_status open_part(part *p, const char *path, lh_error *error) {
    lh_status status = lh_regular_file_open(path, &p->file, error);
    return status == LH_OK ? read_header(p, path, error) : status;
}

/* ---- Several ---- */

/* "parts 2 and 4 of 5 are missing: ...": the numbers as far as there is room. */
static lh_status fail_missing(const char *const *paths, uint32_t count, const bool *missing,
                              lh_error *error) {
    char numbers[80] = "";
    const char *first = NULL;
    uint32_t named = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!missing[i])
            continue;
        size_t length = strlen(numbers);
        first = first ? first : paths[i];
        if (length < sizeof numbers - 16)
            snprintf(numbers + length, sizeof numbers - length, "%s%u", named ? ", " : "", i + 1);
        else if (numbers[length - 1] != '.')
            snprintf(numbers + length, sizeof numbers - length, " ...");
        named++;
    }
    return lh_fail(error, LH_ERR_NOT_FOUND, "%s %s of %u %s missing; there is no %.160s",
                   named > 1 ? "parts" : "part", numbers, count, named > 1 ? "are" : "is", first);
}

static lh_status open_each(lh_gguf_file *file, const char *const *paths, lh_error *error) {
    bool missing[LH_GGUF_PARTS_MAX] = {false}, is_any_missing = false;
    for (uint32_t i = 0; i < file->count; i++) {
        lh_status status = open_part(&file->parts[i], paths[i], error);
        missing[i] = status == LH_ERR_NOT_FOUND && !file->parts[i].file;
        is_any_missing |= missing[i];
        if (status != LH_OK && !missing[i])
            return status;
    }
    return is_any_missing ? fail_missing(paths, file->count, missing, error) : LH_OK;
}

static lh_status merge(lh_gguf_file *file, const char *path, lh_error *error) {
    const lh_gguf *parts[LH_GGUF_PARTS_MAX];
    lh_error problem;
    for (uint32_t i = 0; i < file->count; i++)
        parts[i] = file->parts[i].gguf;
    lh_status status = lh_gguf_merge(parts, file->count, &file->merged, &problem);
    if (status == LH_OK)
        status = lh_gguf_parse(file->merged.header, file->merged.header_bytes,
                               file->merged.file_bytes, &file->gguf, &problem);
    if (status != LH_OK)
        return lh_fail(error, status, "%.110s: %.190s", path, problem.message);
    for (uint32_t i = 0; i < file->count; i++)
        forget_header(&file->parts[i]);
    file->header = file->merged.header;
    file->size = file->merged.file_bytes;
    return LH_OK;
}

/* A part under a name by which the others are not to be found is refused. */
static lh_status keep_one(lh_gguf_file *file, const char *path, lh_error *error) {
    uint32_t count;
    lh_error problem;
    part *p = &file->parts[0];
    lh_status status = lh_gguf_part_count(p->gguf, &count, &problem);
    if (status != LH_OK)
        return lh_fail(error, status, "%.100s: %.200s", path, problem.message);
    if (count > 1)
        return lh_fail(error, LH_ERR_INVALID,
                       "%.160s is one of %u parts of a model, and its name does not end in "
                       "-00001-of-%05u.gguf or the like, by which the others are found",
                       path, count, count);
    file->header = p->header;
    file->gguf = p->gguf;
    file->size = lh_regular_file_size(p->file);
    p->header = NULL;
    p->gguf = NULL;
    return LH_OK;
}

lh_status lh_gguf_file_open_parts(const char *const *paths, uint32_t count, lh_gguf_file **file,
                                  lh_error *error) {
    if (count == 0 || count > LH_GGUF_PARTS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%.160s: a model in %u files, %u at most are read",
                       count ? paths[0] : "", count, LH_GGUF_PARTS_MAX);
    lh_gguf_file *opened = calloc(1, sizeof *opened);
    part *parts = calloc(count, sizeof *parts);
    if (!opened || !parts) {
        free(opened);
        free(parts);
        return fail_memory(error);
    }
    opened->parts = parts;
    opened->count = count;
    lh_status status =
        count == 1 ? open_part(parts, paths[0], error) : open_each(opened, paths, error);
    if (status == LH_OK)
        status = count == 1 ? keep_one(opened, paths[0], error) : merge(opened, paths[0], error);
    if (status == LH_OK)
        *file = opened;
    else
        lh_gguf_file_close(opened);
    return status;
}

/* paths[name->count]; each is malloc'd. */
static lh_status open_named(const char *path, const lh_gguf_part_name *name, char **paths,
                            lh_gguf_file **file, lh_error *error) {
    for (uint32_t i = 0; i < name->count; i++)
        if (!(paths[i] = lh_gguf_part_path(path, name, i + 1)))
            return fail_memory(error);
    return lh_gguf_file_open_parts((const char *const *)paths, name->count, file, error);
}

lh_status lh_gguf_file_open(const char *path, lh_gguf_file **file, lh_error *error) {
    char *paths[LH_GGUF_PARTS_MAX] = {NULL};
    lh_gguf_part_name name;
    lh_gguf_part_name_parse(path, &name);
    if (name.count > LH_GGUF_PARTS_MAX)
        return lh_gguf_file_open_parts(&path, name.count, file, error);
    lh_status status = open_named(path, &name, paths, file, error);
    for (uint32_t i = 0; i < name.count; i++)
        free(paths[i]);
    return status;
}

void lh_gguf_file_close(lh_gguf_file *file) {
    if (!file)
        return;
    for (uint32_t i = 0; i < file->count; i++) {
        forget_header(&file->parts[i]);
        lh_regular_file_close(file->parts[i].file);
    }
    lh_gguf_destroy(file->gguf);
    if (file->header != file->merged.header)
        free(file->header);
    lh_gguf_merged_reset(&file->merged);
    free(file->parts);
    free(file);
}

/* ---- What is in it ---- */

const lh_gguf *lh_gguf_file_gguf(const lh_gguf_file *file) {
    return file->gguf;
}

const uint8_t *lh_gguf_file_header(const lh_gguf_file *file) {
    return file->header;
}

uint64_t lh_gguf_file_size(const lh_gguf_file *file) {
    return file->size;
}

uint32_t lh_gguf_file_parts(const lh_gguf_file *file) {
    return file->count;
}

lh_status lh_gguf_file_stamp(const lh_gguf_file *file, lh_sha256 *digest, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < file->count && status == LH_OK; i++) {
        uint64_t stamp[LH_FILE_STAMP_NUMBERS];
        status = lh_regular_file_stamp(file->parts[i].file, stamp, error);
        if (status == LH_OK && lh_sha256_update(digest, stamp, sizeof stamp) != LH_OK)
            status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a digest");
    }
    return status;
}

/* A stretch of the whole that lies in one place: in a part, in memory, or nowhere (padding). */
typedef struct stretch {
    const lh_regular_file *file; /* NULL: not in a part */
    const uint8_t *memory;       /* NULL: not in memory */
    uint64_t offset;             /* in that file */
    uint64_t length;
} stretch;

static uint64_t less_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* How many tensors begin at `offset` or before. Merged tensors are in ascending order. */
static size_t tensors_before(const lh_gguf *gguf, uint64_t offset) {
    size_t low = 0, high = lh_gguf_tensor_count(gguf);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lh_gguf_tensor_at(gguf, middle)->offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What is at `offset`, at most `length` bytes of it; offset is before the end. */
static stretch stretch_at(const lh_gguf_file *file, uint64_t offset, uint64_t length) {
    uint64_t header_bytes = lh_gguf_data_offset(file->gguf);
    if (file->count == 1)
        return (stretch){file->parts[0].file, NULL, offset, length};
    if (offset < header_bytes)
        return (stretch){NULL, file->header + offset, 0, less_of(length, header_bytes - offset)};
    size_t next = tensors_before(file->gguf, offset);
    const lh_gguf_tensor *tensor = next ? lh_gguf_tensor_at(file->gguf, next - 1) : NULL;
    if (tensor && offset < tensor->offset + tensor->bytes) {
        const lh_gguf_place *place = &file->merged.places[next - 1];
        uint64_t from = offset - tensor->offset;
        return (stretch){file->parts[place->part].file, NULL, place->offset + from,
                         less_of(length, tensor->bytes - from)};
    }
    uint64_t end = next < lh_gguf_tensor_count(file->gguf)
                       ? lh_gguf_tensor_at(file->gguf, next)->offset
                       : file->size;
    return (stretch){NULL, NULL, 0, less_of(length, end - offset)};
}

lh_status lh_gguf_file_read(const lh_gguf_file *file, uint64_t offset, void *bytes, size_t length,
                            lh_error *error) {
    uint8_t *next = bytes;
    if (offset > file->size || length > file->size - offset)
        return lh_fail(error, LH_ERR_IO,
                       "reading %zu bytes at offset %" PRIu64 " of a model of %" PRIu64 " bytes",
                       length, offset, file->size);
    while (length > 0) {
        stretch s = stretch_at(file, offset, length);
        lh_status status = LH_OK;
        if (s.file)
            status = lh_regular_file_read(s.file, s.offset, next, (size_t)s.length, error);
        else if (s.memory)
            memcpy(next, s.memory, (size_t)s.length);
        else
            memset(next, 0, (size_t)s.length);
        if (status != LH_OK)
            return status;
        next += s.length;
        offset += s.length;
        length -= (size_t)s.length;
    }
    return LH_OK;
}

void lh_gguf_file_expect(const lh_gguf_file *file, uint64_t offset, uint64_t length) {
    uint64_t end = offset < file->size ? offset + less_of(length, file->size - offset) : offset;
    while (offset < end) {
        stretch s = stretch_at(file, offset, end - offset);
        if (s.file)
            lh_regular_file_expect(s.file, s.offset, s.length);
        offset += s.length;
    }
}

lh_status lh_gguf_file_digest_tensor(const lh_gguf_file *file, size_t index,
                                     const _Atomic bool *cancelled, uint8_t digest[LH_SHA256_BYTES],
                                     lh_error *error) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(file->gguf, index);
    lh_gguf_place place = {0, tensor->offset};
    if (file->count > 1)
        place = file->merged.places[index];
    return lh_regular_file_digest(file->parts[place.part].file, place.offset, tensor->bytes,
                                  cancelled, digest, error);
}
