/* Lists in a folder, and a stat for each of their lines. */
#include "worker/weights/weight_inventory.h"

#include "common/base/log.h"
#include "common/gguf/gguf_file.h"
#include "common/model/model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST            "layers-"        /* and the digest of the model's header */
#define PARTIAL         "partial-XXXXXX" /* as the cache's own: one that is left over, it removes */
#define LIST_NAME_BYTES (sizeof LIST - 1 + LH_MODEL_DIGEST_BYTES)

struct lh_weight_inventory {
    char *folder;
    lh_cached_layers local; /* of the local file; run_count 0: there is none */
    pthread_mutex_t lock;   /* of what follows */
    uint32_t count;
    lh_cached_layers models[LH_CACHED_MODELS_MAX];
};

/* ---- Lists ---- */

/* The lists that were written last, the latest first. */
typedef struct latest_lists {
    uint32_t count;
    char models[LH_CACHED_MODELS_MAX][LH_MODEL_DIGEST_BYTES];
    struct timespec written[LH_CACHED_MODELS_MAX];
} latest_lists;

static bool is_list(const char *name) {
    uint8_t digest[LH_SHA256_BYTES];
    return strncmp(name, LIST, sizeof LIST - 1) == 0 && strlen(name) == LIST_NAME_BYTES - 1 &&
           lh_sha256_parse(name + sizeof LIST - 1, digest);
}

static bool is_later(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static void add_list(latest_lists *lists, const char *model, const struct timespec *written) {
    uint32_t at = lists->count;
    while (at > 0 && is_later(written, &lists->written[at - 1]))
        at--;
    if (at == LH_CACHED_MODELS_MAX)
        return;
    lists->count += lists->count < LH_CACHED_MODELS_MAX;
    for (uint32_t i = lists->count - 1; i > at; i--) {
        memcpy(lists->models[i], lists->models[i - 1], sizeof lists->models[i]);
        lists->written[i] = lists->written[i - 1];
    }
    snprintf(lists->models[at], sizeof lists->models[at], "%s", model);
    lists->written[at] = *written;
}

static void find_lists(int folder, latest_lists *lists) {
    int copy = dup(folder);
    DIR *items = copy >= 0 ? fdopendir(copy) : NULL;
    struct stat info;
    if (!items) {
        if (copy >= 0)
            close(copy);
        return;
    }
    rewinddir(items);
    for (struct dirent *item; (item = readdir(items));)
        if (is_list(item->d_name) && fstatat(folder, item->d_name, &info, 0) == 0)
            add_list(lists, item->d_name + sizeof LIST - 1, &info.st_mtim);
    closedir(items);
}

/* ---- Layers ---- */

/* A line: "LAYER BYTES DIGEST". */
static bool read_line(FILE *list, uint32_t *layer, uint64_t *bytes,
                      char digest[LH_SHA256_HEX_BYTES]) {
    uint8_t parsed[LH_SHA256_BYTES];
    return fscanf(list, "%" SCNu32 " %" SCNu64 " %64s", layer, bytes, digest) == 3 &&
           *layer < LH_CACHED_LAYERS_MAX && lh_sha256_parse(digest, parsed);
}

static bool is_here(int folder, const char *digest, uint64_t bytes) {
    struct stat info;
    return fstatat(folder, digest, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_size == bytes;
}

/* As far as the list can be read. */
static void read_layers(int folder, FILE *list, lh_cached_layers *cached) {
    uint32_t layer, current = UINT32_MAX;
    uint64_t bytes;
    char digest[LH_SHA256_HEX_BYTES];
    bool is_whole = false;
    while (read_line(list, &layer, &bytes, digest)) {
        if (layer != current) {
            if (is_whole)
                lh_cached_layers_add(cached, current);
            if (current != UINT32_MAX && layer < current)
                return;
            current = layer;
            is_whole = true;
        }
        is_whole = is_whole && is_here(folder, digest, bytes);
    }
    if (is_whole)
        lh_cached_layers_add(cached, current);
}

static lh_cached_layers look_at(int folder, const char *model) {
    char name[LIST_NAME_BYTES];
    lh_cached_layers cached = {0};
    snprintf(name, sizeof name, LIST "%s", model);
    snprintf(cached.model, sizeof cached.model, "%s", model);
    int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *list = descriptor >= 0 ? fdopen(descriptor, "r") : NULL;
    if (list)
        read_layers(folder, list, &cached);
    if (list)
        fclose(list);
    else if (descriptor >= 0)
        close(descriptor);
    return cached;
}

void lh_weight_inventory_refresh(lh_weight_inventory *inventory) {
    latest_lists lists = {0};
    uint32_t count = 0;
    lh_cached_layers models[LH_CACHED_MODELS_MAX];
    if (inventory->local.run_count > 0)
        models[count++] = inventory->local;
    int folder = open(inventory->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0)
        find_lists(folder, &lists);
    for (uint32_t i = 0; i < lists.count && count < LH_CACHED_MODELS_MAX; i++)
        if (strcmp(lists.models[i], inventory->local.model) != 0) {
            models[count] = look_at(folder, lists.models[i]);
            count += models[count].run_count > 0;
        }
    if (folder >= 0)
        close(folder);
    pthread_mutex_lock(&inventory->lock);
    inventory->count = count;
    memcpy(inventory->models, models, count * sizeof *models);
    pthread_mutex_unlock(&inventory->lock);
}

uint32_t lh_weight_inventory_read(lh_weight_inventory *inventory,
                                  lh_cached_layers models[LH_CACHED_MODELS_MAX]) {
    pthread_mutex_lock(&inventory->lock);
    uint32_t count = inventory->count;
    memcpy(models, inventory->models, count * sizeof *models);
    pthread_mutex_unlock(&inventory->lock);
    return count;
}

/* ---- Writing a list ---- */

static lh_status fail_errno(lh_error *error, int number, const char *path) {
    return lh_fail(error, number == ENOSPC || number == EDQUOT ? LH_ERR_LIMIT : LH_ERR_IO,
                   "%s: a list of layers cannot be written: %s", path, strerror(number));
}

/* The errno of what went wrong, or 0. */
static int write_lines(int descriptor, const lh_layer_file *files, size_t count) {
    FILE *list = fdopen(descriptor, "w");
    bool is_written = list;
    for (size_t i = 0; i < count && is_written; i++) {
        char digest[LH_SHA256_HEX_BYTES];
        lh_sha256_render(files[i].digest, digest);
        is_written = fprintf(list, "%" PRIu32 " %" PRIu64 " %s\n", files[i].layer, files[i].bytes,
                             digest) > 0;
    }
    is_written = is_written && fflush(list) == 0 && fchmod(descriptor, 0644) == 0;
    int number = is_written ? 0 : errno;
    if (!list)
        close(descriptor);
    else if (fclose(list) != 0 && number == 0)
        number = errno;
    return number;
}

lh_status lh_weight_inventory_note(lh_weight_inventory *inventory, const char *model,
                                   const lh_layer_file *files, size_t count, lh_error *error) {
    char *aside = NULL, *path = NULL;
    lh_status status = LH_OK;
    if (asprintf(&aside, "%s/" PARTIAL, inventory->folder) < 0)
        aside = NULL;
    if (asprintf(&path, "%s/" LIST "%s", inventory->folder, model) < 0)
        path = NULL;
    int descriptor = aside && path ? mkostemp(aside, O_CLOEXEC) : -1;
    if (!aside || !path)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a list of layers");
    else if (descriptor < 0)
        status = fail_errno(error, errno, inventory->folder);
    else {
        int number = write_lines(descriptor, files, count);
        if (number == 0 && rename(aside, path) != 0)
            number = errno;
        if (number != 0) {
            unlink(aside);
            status = fail_errno(error, number, path);
        }
    }
    free(path);
    free(aside);
    return status;
}

/* ---- Life ---- */

/* All layers of a model file that can be computed, under the digest of its header. */
static void read_local(const char *path, lh_cached_layers *local) {
    lh_gguf_file *file;
    lh_model_config config;
    uint8_t digest[LH_SHA256_BYTES];
    if (lh_gguf_file_open(path, &file, NULL) != LH_OK)
        return;
    const lh_gguf *gguf = lh_gguf_file_gguf(file);
    if (lh_model_config_read(gguf, &config, NULL) == LH_OK &&
        config.layers <= LH_CACHED_LAYERS_MAX &&
        lh_sha256_digest(lh_gguf_file_header(file), (size_t)lh_gguf_data_offset(gguf), digest) ==
            LH_OK) {
        lh_sha256_render(digest, local->model);
        local->runs[local->run_count++] = (lh_cached_run){0, config.layers};
    }
    lh_gguf_file_close(file);
}

lh_status lh_weight_inventory_create(const char *folder, const char *model_path,
                                     lh_weight_inventory **inventory, lh_error *error) {
    lh_weight_inventory *created = calloc(1, sizeof *created);
    if (created)
        created->folder = strdup(folder);
    if (!created || !created->folder) {
        free(created);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the list of cached layers");
    }
    pthread_mutex_init(&created->lock, NULL);
    if (model_path && *model_path)
        read_local(model_path, &created->local);
    lh_weight_inventory_refresh(created);
    *inventory = created;
    return LH_OK;
}

void lh_weight_inventory_destroy(lh_weight_inventory *inventory) {
    if (!inventory)
        return;
    pthread_mutex_destroy(&inventory->lock);
    free(inventory->folder);
    free(inventory);
}
