/* Plan, room, downloads, a look inside, renames. */
#include "gateway/models/pull.h"

#include "common/gguf/gguf_file.h"
#include "common/gguf/part_name.h"
#include "common/gguf/regular_file.h"
#include "gateway/models/download.h"
#include "gateway/models/http_get.h"
#include "gateway/models/models_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct pull_file {
    char url[LH_MODEL_URL_BYTES];
    char path[LH_MODELS_PATH_BYTES]; /* where it is to be */
    char part[LH_MODELS_PATH_BYTES]; /* and where it is until then */
    uint64_t bytes;                  /* 0: not known */
    bool has_sha256, is_there;
    uint8_t sha256[LH_SHA256_BYTES];
} pull_file;

typedef struct pull {
    const lh_pull_options *options;
    lh_model_reference reference;
    pull_file *files;
    uint32_t count;
    lh_pull_report report;
} pull;

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a model's files");
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- The plan: which files, from where ---- */

static lh_status allocate(pull *p, uint32_t count, lh_error *error) {
    p->files = calloc(count, sizeof *p->files);
    p->count = p->files ? count : 0;
    return p->files ? LH_OK : fail_memory(error);
}

static bool is_folder_name(const char *output) {
    struct stat info;
    size_t length = strlen(output);
    return length > 0 &&
           (output[length - 1] == '/' || (stat(output, &info) == 0 && S_ISDIR(info.st_mode)));
}

/* `name`: the file's own, a safe one. */
static lh_status place_file(const pull *p, pull_file *file, const char *name, lh_error *error) {
    const char *output = p->options->output, *folder = p->options->folder;
    size_t length = strlen(output);
    bool is_folder = is_folder_name(output);
    int written;
    if (length > 0 && !is_folder && p->count > 1)
        return lh_fail(error, LH_ERR_INVALID,
                       "--output %.150s names one file, and the model has %u: give a folder",
                       output, p->count);
    if (length > 0 && !is_folder)
        written = snprintf(file->path, sizeof file->path, "%s", output);
    else
        written = snprintf(file->path, sizeof file->path, "%s%s%s", length ? output : folder,
                           length && output[length - 1] == '/' ? "" : "/", name);
    int part = snprintf(file->part, sizeof file->part, "%.*s.part", (int)sizeof file->part - 16,
                        file->path);
    if (written < (int)sizeof file->path - 16 && part > 0)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "the path of %.150s is too long", name);
}

static lh_status plan_hub_model(pull *p, const lh_hub_model *model, lh_error *error) {
    lh_status status = allocate(p, model->count, error);
    for (uint32_t i = 0; status == LH_OK && i < model->count; i++) {
        const lh_hub_file *from = model->files[i];
        pull_file *file = &p->files[i];
        file->bytes = from->bytes;
        file->has_sha256 = from->has_sha256;
        memcpy(file->sha256, from->sha256, sizeof file->sha256);
        status = lh_hub_file_url(&p->options->hub, &p->reference, from->path, file->url, error);
        if (status == LH_OK)
            status = place_file(p, file, name_of(from->path), error);
    }
    return status;
}

static lh_status plan_hub(pull *p, lh_error *error) {
    lh_hub_listing listing;
    lh_hub_model model;
    lh_status status = lh_hub_list(&p->options->hub, &p->reference, &listing, error);
    if (status == LH_OK)
        status = lh_hub_listing_pick(&listing, p->reference.quantization, &model, error);
    if (status == LH_OK)
        status = plan_hub_model(p, &model, error);
    lh_hub_listing_reset(&listing);
    return status;
}

static lh_status plan_url(pull *p, lh_error *error) {
    char name[LH_MODEL_NAME_BYTES];
    lh_gguf_part_name part;
    lh_status status = lh_model_name_of_url(p->reference.url, name, error);
    if (status != LH_OK)
        return status;
    lh_gguf_part_name_parse(name, &part);
    if (part.count > LH_GGUF_PARTS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%.150s: a model in %u files, %u at most are read",
                       name, part.count, LH_GGUF_PARTS_MAX);
    status = allocate(p, part.count, error);
    for (uint32_t i = 0; status == LH_OK && i < p->count; i++) {
        char *own = lh_gguf_part_path(name, &part, i + 1);
        status = own ? lh_model_url_beside(p->reference.url, own, p->files[i].url, error)
                     : fail_memory(error);
        if (status == LH_OK)
            status = place_file(p, &p->files[i], own, error);
        free(own);
    }
    return status;
}

/* --sha256 is of one file. */
static lh_status take_digest(pull *p, lh_error *error) {
    pull_file *file = &p->files[0];
    uint8_t digest[LH_SHA256_BYTES];
    if (!p->options->sha256[0])
        return LH_OK;
    if (!lh_sha256_parse(p->options->sha256, digest))
        return lh_fail(error, LH_ERR_INVALID, "--sha256 %.70s is not 64 lower-case hex digits",
                       p->options->sha256);
    if (p->count > 1)
        return lh_fail(error, LH_ERR_INVALID, "--sha256 is of one file, and the model has %u",
                       p->count);
    if (file->has_sha256 && !lh_sha256_equal(file->sha256, digest))
        return lh_fail(error, LH_ERR_CORRUPT,
                       "the hub says that %.150s has another SHA-256 than --sha256",
                       name_of(file->path));
    memcpy(file->sha256, digest, sizeof digest);
    file->has_sha256 = true;
    return LH_OK;
}

/* ---- What is here already ---- */

static lh_status compare_digest(const pull_file *file, const lh_regular_file *opened, bool *is_same,
                                lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    uint64_t size = lh_regular_file_size(opened);
    *is_same = !file->bytes || size == file->bytes;
    if (!*is_same || !file->has_sha256)
        return LH_OK;
    lh_status status = lh_regular_file_digest(opened, 0, size, NULL, digest, error);
    *is_same = status == LH_OK && lh_sha256_equal(digest, file->sha256);
    return status;
}

static lh_status look_for(pull_file *file, lh_error *error) {
    lh_regular_file *opened;
    bool is_same = false;
    lh_status status = lh_regular_file_open(file->path, &opened, error);
    if (status == LH_ERR_NOT_FOUND)
        return LH_OK;
    if (status != LH_OK)
        return status;
    status = compare_digest(file, opened, &is_same, error);
    lh_regular_file_close(opened);
    file->is_there = status == LH_OK && is_same;
    if (status == LH_OK && !is_same)
        return lh_fail(error, LH_ERR_EXISTS,
                       "%.200s is there, and is another file: remove it (longhaul-gateway rm), or "
                       "give another --output",
                       file->path);
    return status;
}

/* ---- Downloads ---- */

/* Of all files, as far as it is known: a disk that is too small is told before the first byte. */
static lh_status need_room(const pull *p, const lh_part_file *part, lh_error *error) {
    uint64_t missing = 0;
    struct stat info;
    for (uint32_t i = 0; i < p->count; i++) {
        const pull_file *file = &p->files[i];
        uint64_t here = stat(file->part, &info) == 0 ? (uint64_t)info.st_size : 0;
        if (!file->is_there && file->bytes > here)
            missing += file->bytes - here;
    }
    return lh_part_file_need_room(part, missing, error);
}

/* The hub's token is for the hub alone. */
static const char *token_for(const pull *p, const char *url) {
    const lh_hub *hub = &p->options->hub;
    return hub->token[0] && lh_http_same_origin(hub->url, url) ? hub->token : "";
}

static lh_status fetch_file(pull *p, uint32_t index, lh_error *error) {
    pull_file *file = &p->files[index];
    lh_part_file part;
    lh_download download = {.url = file->url,
                            .token = token_for(p, file->url),
                            .bytes = file->bytes,
                            .has_sha256 = file->has_sha256,
                            .tries = p->options->hub.tries,
                            .stall_timeout_s = p->options->hub.stall_timeout_s};
    memcpy(download.sha256, file->sha256, sizeof download.sha256);
    lh_status status = lh_part_file_open(&part, file->path, error);
    if (status == LH_OK) {
        lh_pull_report_begin(&p->report, name_of(file->path), index + 1, p->count, part.bytes,
                             file->bytes);
        status = need_room(p, &part, error);
    }
    if (status == LH_OK)
        status = lh_download_run(&download, &part, &p->report, error);
    bool is_empty = part.bytes == 0;
    lh_part_file_close(&part);
    if (status != LH_OK && status != LH_ERR_BUSY && is_empty)
        lh_part_file_remove(file->path);
    return status;
}

static lh_status fetch_missing(pull *p, lh_error *error) {
    for (uint32_t i = 0; i < p->count; i++) {
        lh_status status = p->files[i].is_there ? LH_OK : fetch_file(p, i, error);
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

/* ---- Its end ---- */

/* What is no model is not kept, where it is one file; of several nobody knows which is wrong. */
static lh_status check_model(const pull *p, uint64_t *bytes, lh_error *error) {
    const char *paths[LH_GGUF_PARTS_MAX];
    lh_gguf_file *model;
    lh_error problem;
    for (uint32_t i = 0; i < p->count; i++)
        paths[i] = p->files[i].is_there ? p->files[i].path : p->files[i].part;
    lh_status status = lh_gguf_file_open_parts(paths, p->count, &model, &problem);
    if (status == LH_OK) {
        *bytes = lh_gguf_file_size(model);
        lh_gguf_file_close(model);
        return LH_OK;
    }
    if (p->count > 1)
        return lh_fail(error, status, "%.180s. Remove what is here with longhaul-gateway rm",
                       problem.message);
    if (!p->files[0].is_there)
        lh_part_file_remove(p->files[0].path);
    return lh_fail(error, status, "%s", problem.message);
}

static lh_status publish(pull *p, lh_error *error) {
    for (uint32_t i = 0; i < p->count; i++) {
        lh_status status =
            p->files[i].is_there ? LH_OK : lh_part_file_publish(p->files[i].path, error);
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

static lh_status plan(pull *p, lh_error *error) {
    lh_status status = lh_model_reference_parse(p->options->reference, &p->reference, error);
    const char *output = p->options->output;
    if (status == LH_OK && (!output[0] || is_folder_name(output)))
        status = lh_models_folder_make(output[0] ? output : p->options->folder, error);
    if (status == LH_OK)
        status = lh_hub_check(&p->options->hub, error);
    if (status == LH_OK)
        status = p->reference.is_hub ? plan_hub(p, error) : plan_url(p, error);
    if (status == LH_OK)
        status = take_digest(p, error);
    for (uint32_t i = 0; status == LH_OK && i < p->count; i++)
        status = look_for(&p->files[i], error);
    return status;
}

static bool is_all_there(const pull *p) {
    for (uint32_t i = 0; i < p->count; i++)
        if (!p->files[i].is_there)
            return false;
    return true;
}

lh_status lh_pull(const lh_pull_options *options, lh_error *error) {
    pull p = {.options = options};
    uint64_t bytes = 0;
    lh_pull_report_init(&p.report);
    lh_status status = plan(&p, error);
    if (status == LH_OK)
        status = fetch_missing(&p, error);
    if (status == LH_OK)
        status = check_model(&p, &bytes, error);
    if (status == LH_OK)
        status = publish(&p, error);
    if (status == LH_OK)
        lh_pull_report_done(&p.report, p.files[0].path, bytes, is_all_there(&p));
    else
        lh_pull_report_end(&p.report);
    if (status == LH_OK && options->path)
        snprintf(options->path, LH_MODELS_PATH_BYTES, "%s", p.files[0].path);
    free(p.files);
    return status;
}
