/* [{"type": "file", "path": "...", "size": 1, "lfs": {"oid": "sha256", "size": 1}}, ...] */
#include "gateway/models/hub_listing_json.h"

#include "common/base/growing_array.h"
#include "common/json/json_object.h"
#include "gateway/models/model_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char quantization_default[] = "Q4_K_M";

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- Parsing ---- */

/* A projector of images and an importance matrix end in .gguf, too, and are no language models. */
static bool is_model(const char *path) {
    const char *name = name_of(path);
    return strlen(path) < LH_HUB_PATH_BYTES && lh_model_name_is_safe(name) && path[0] != '/' &&
           !strstr(path, "..") && !strcasestr(name, "mmproj") && !strcasestr(name, "imatrix");
}

static bool read_file(const json_t *entry, lh_hub_file *file) {
    const json_t *lfs = json_object_get(entry, "lfs"), *size = json_object_get(entry, "size");
    const char *type = json_string_value(json_object_get(entry, "type")),
               *path = json_string_value(json_object_get(entry, "path")),
               *sha256 = json_string_value(json_object_get(lfs, "oid"));
    if (!type || strcmp(type, "file") != 0 || !path || !is_model(path) || !json_is_integer(size) ||
        json_integer_value(size) <= 0)
        return false;
    *file = (lh_hub_file){.bytes = (uint64_t)json_integer_value(size)};
    snprintf(file->path, sizeof file->path, "%s", path);
    file->has_sha256 = sha256 && lh_sha256_parse(sha256, file->sha256);
    return true;
}

static lh_status read_files(const json_t *entries, lh_hub_listing *listing, lh_error *error) {
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) {
        lh_hub_file file;
        if (!read_file(entry, &file))
            continue;
        if (listing->count == LH_HUB_FILES_MAX)
            return lh_fail(error, LH_ERR_LIMIT, "the hub lists over %d files", LH_HUB_FILES_MAX);
        if (!lh_growing_array_reserve(&listing->files, &listing->capacity, listing->count + 1,
                                      sizeof file))
            return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the hub's list");
        listing->files[listing->count++] = file;
    }
    return LH_OK;
}

/* The bounds of json_object.h are for objects. */
static json_t *parse_array(const char *page, size_t length, lh_error *error) {
    static const char before[] = "{\"files\":", after[] = "}";
    size_t whole = sizeof before - 1 + length + sizeof after - 1;
    char *text = length < whole ? malloc(whole) : NULL;
    if (!text) {
        lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the hub's list");
        return NULL;
    }
    memcpy(text, before, sizeof before - 1);
    memcpy(text + sizeof before - 1, page, length);
    memcpy(text + sizeof before - 1 + length, after, sizeof after - 1);
    json_t *object = lh_json_object_parse(text, whole, error);
    free(text);
    return object;
}

lh_status lh_hub_listing_parse(const char *page, size_t length, lh_hub_listing *listing,
                               lh_error *error) {
    lh_error problem = {.status = LH_OK};
    json_t *object = parse_array(page, length, &problem);
    if (!object)
        return lh_fail(error, problem.status, "the hub's list: %.250s", problem.message);
    const json_t *entries = json_object_get(object, "files");
    lh_status status = json_is_array(entries)
                           ? read_files(entries, listing, error)
                           : lh_fail(error, LH_ERR_MALFORMED, "the hub's list is no array");
    json_decref(object);
    return status;
}

void lh_hub_listing_reset(lh_hub_listing *listing) {
    free(listing->files);
    *listing = (lh_hub_listing){0};
}

/* ---- Picking ---- */

static bool is_boundary(char c) {
    return c == '\0' || strchr("-./", c);
}

/* Whether the path has the word between boundaries; before it also '_'. "Q4_K" is not in
 * "x-Q4_K_M.gguf". */
static bool has_word(const char *path, const char *word) {
    size_t length = strlen(word);
    for (const char *at = path; (at = strcasestr(at, word)); at++)
        if ((at == path || is_boundary(at[-1]) || at[-1] == '_') && is_boundary(at[length]))
            return true;
    return false;
}

static bool is_meant(const lh_hub_file *file, const char *quantization) {
    return !quantization[0] || has_word(file->path, quantization) ||
           strcmp(name_of(file->path), quantization) == 0;
}

/* Whether the file is the first, or only, part of its model that is listed. */
static bool is_leader(const lh_hub_listing *listing, const lh_hub_file *file) {
    lh_gguf_part_name own, other;
    lh_gguf_part_name_parse(file->path, &own);
    for (const lh_hub_file *f = listing->files; own.count > 1 && f < file; f++)
        if (lh_gguf_part_name_parse(f->path, &other) && other.count == own.count &&
            other.stem_bytes == own.stem_bytes && strncmp(f->path, file->path, own.stem_bytes) == 0)
            return false;
    return true;
}

/* How many models are meant; *first is a file of the first of them. */
static size_t count_models(const lh_hub_listing *listing, const char *quantization,
                           const lh_hub_file **first) {
    size_t count = 0;
    for (size_t i = 0; i < listing->count; i++)
        if (is_meant(&listing->files[i], quantization) && is_leader(listing, &listing->files[i]) &&
            count++ == 0)
            *first = &listing->files[i];
    return count;
}

static const lh_hub_file *find_path(const lh_hub_listing *listing, const char *path) {
    for (size_t i = 0; i < listing->count; i++)
        if (strcmp(listing->files[i].path, path) == 0)
            return &listing->files[i];
    return NULL;
}

static lh_status collect_parts(const lh_hub_listing *listing, const lh_hub_file *file,
                               lh_hub_model *model, lh_error *error) {
    lh_gguf_part_name name;
    lh_gguf_part_name_parse(file->path, &name);
    if (name.count > LH_GGUF_PARTS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%.150s: a model in %u files, %u at most are read",
                       file->path, name.count, LH_GGUF_PARTS_MAX);
    for (model->count = 0; model->count < name.count; model->count++) {
        char *path = lh_gguf_part_path(file->path, &name, model->count + 1);
        if (!path)
            return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a name");
        model->files[model->count] = find_path(listing, path);
        free(path);
        if (!model->files[model->count])
            return lh_fail(error, LH_ERR_MALFORMED, "the hub does not list part %u of %u of %.150s",
                           model->count + 1, name.count, file->path);
    }
    return LH_OK;
}

/* "a.gguf, b.gguf, ...": of those that are meant, as many as there is room for. */
static void name_models(const lh_hub_listing *listing, const char *quantization, char *text,
                        size_t bytes) {
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < listing->count; i++) {
        const lh_hub_file *file = &listing->files[i];
        if (!is_meant(file, quantization) || !is_leader(listing, file))
            continue;
        if (length + strlen(file->path) + 8 > bytes) {
            snprintf(text + length, bytes - length, ", ...");
            return;
        }
        length +=
            (size_t)snprintf(text + length, bytes - length, "%s%s", length ? ", " : "", file->path);
    }
}

lh_status lh_hub_listing_pick(const lh_hub_listing *listing, const char *quantization,
                              lh_hub_model *model, lh_error *error) {
    const lh_hub_file *file = NULL;
    char names[220];
    size_t count = count_models(listing, quantization, &file);
    *model = (lh_hub_model){.count = 0};
    if (count > 1 && !quantization[0] && count_models(listing, quantization_default, &file) == 1)
        count = 1;
    if (count == 1)
        return collect_parts(listing, file, model, error);
    name_models(listing, count ? quantization : "", names, sizeof names);
    if (count > 1)
        return lh_fail(error, LH_ERR_INVALID, "which of them? Say hf:OWNER/REPO:QUANT: %s", names);
    if (!names[0])
        return lh_fail(error, LH_ERR_NOT_FOUND, "the repository has no GGUF model");
    return lh_fail(error, LH_ERR_NOT_FOUND, "there is no %.60s; there are: %s", quantization,
                   names);
}
