/* readdir, and names. */
#include "gateway/models/models_folder.h"

#include "common/base/growing_array.h"
#include "common/gguf/part_name.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Which folder ---- */

static const char *variable(const char *name) {
    const char *text = getenv(name);
    return text && text[0] == '/' ? text : NULL;
}

lh_status lh_models_folder_choose(const char *given, char folder[LH_MODELS_PATH_BYTES],
                                  lh_error *error) {
    const char *data = variable("XDG_DATA_HOME"), *home = variable("HOME");
    static const char of_machine[] = "/var/lib/longhaul/models";
    bool is_service = variable("STATE_DIRECTORY"); /* systemd's: its users have no home */
    bool is_of_machine = is_service || (geteuid() == 0 && access(of_machine, F_OK) == 0);
    int length = -1;
    if (given[0])
        length = snprintf(folder, LH_MODELS_PATH_BYTES, "%s", given);
    else if (is_of_machine)
        length = snprintf(folder, LH_MODELS_PATH_BYTES, "%s", of_machine);
    else if (data)
        length = snprintf(folder, LH_MODELS_PATH_BYTES, "%s/longhaul/models", data);
    else if (home)
        length = snprintf(folder, LH_MODELS_PATH_BYTES, "%s/.local/share/longhaul/models", home);
    if (length < 0)
        return lh_fail(error, LH_ERR_INVALID, "no home folder is known: give --models-dir");
    /* Room for a name behind it. */
    if (length >= LH_MODELS_PATH_BYTES - LH_MODEL_NAME_BYTES - 16)
        return lh_fail(error, LH_ERR_INVALID,
                       "the path of the models' folder is too long: give a shorter --models-dir");
    return LH_OK;
}

lh_status lh_models_folder_make(const char *folder, lh_error *error) {
    char path[LH_MODELS_PATH_BYTES];
    snprintf(path, sizeof path, "%s", folder);
    for (char *slash = path + 1; path[0] && (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755); /* what fails is seen at the last one */
        *slash = '/';
    }
    struct stat info;
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return lh_fail(error, LH_ERR_IO, "%.200s cannot be made: %s", folder, strerror(errno));
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return lh_fail(error, LH_ERR_IO, "%.200s is no folder", folder);
    return LH_OK;
}

/* ---- What is in it ---- */

/* Of "NAME-00001-of-00002.gguf.part" NAME; false: the file is of no model. */
static bool name_model(const char *file, char name[LH_MODEL_NAME_BYTES], bool *is_partial) {
    static const char *const endings[] = {"", ".part", ".part.tag"};
    char whole[LH_MODEL_NAME_BYTES + 16];
    size_t length = strlen(file);
    for (size_t i = 0; i < 3; i++) {
        size_t ending = strlen(endings[i]);
        if (length <= ending || length >= sizeof whole ||
            strcmp(file + length - ending, endings[i]) != 0)
            continue;
        snprintf(whole, sizeof whole, "%.*s", (int)(length - ending), file);
        if (!lh_model_name_is_safe(whole))
            continue;
        lh_gguf_part_name part;
        lh_gguf_part_name_parse(whole, &part);
        snprintf(name, LH_MODEL_NAME_BYTES, "%.*s", (int)part.stem_bytes, whole);
        *is_partial = i > 0;
        return true;
    }
    return false;
}

typedef lh_status visit_file(void *context, const char *file, const char *name, bool is_partial,
                             lh_error *error);

static lh_status visit_files(const char *folder, visit_file *visit, void *context,
                             lh_error *error) {
    DIR *handle = opendir(folder);
    lh_status status = LH_OK;
    if (!handle && errno == ENOENT)
        return LH_OK;
    if (!handle)
        return lh_fail(error, LH_ERR_IO, "%.200s cannot be read: %s", folder, strerror(errno));
    for (struct dirent *entry; status == LH_OK && (entry = readdir(handle));) {
        char name[LH_MODEL_NAME_BYTES];
        bool is_partial;
        if (name_model(entry->d_name, name, &is_partial))
            status = visit(context, entry->d_name, name, is_partial, error);
    }
    closedir(handle);
    return status;
}

/* ---- Listing ---- */

typedef struct listing {
    const char *folder;
    lh_models_list *list;
} listing;

/* A file before a .part, and the first of several files. */
static void keep_better(lh_models_entry *entry, const char *path, bool is_partial) {
    if (entry->is_partial == is_partial ? strcmp(path, entry->path) < 0 : !is_partial) {
        snprintf(entry->path, sizeof entry->path, "%s", path);
        entry->is_partial = is_partial;
    }
}

static lh_status add_file(void *context, const char *file, const char *name, bool is_partial,
                          lh_error *error) {
    listing *l = context;
    char path[LH_MODELS_PATH_BYTES];
    snprintf(path, sizeof path, "%.750s/%.270s", l->folder, file);
    for (size_t i = 0; i < l->list->count; i++)
        if (strcmp(l->list->entries[i].name, name) == 0) {
            keep_better(&l->list->entries[i], path, is_partial);
            return LH_OK;
        }
    if (!lh_growing_array_reserve(&l->list->entries, &l->list->capacity, l->list->count + 1,
                                  sizeof *l->list->entries))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a list of models");
    lh_models_entry *entry = &l->list->entries[l->list->count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->path, sizeof entry->path, "%s", path);
    entry->is_partial = is_partial;
    return LH_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const lh_models_entry *)a)->name, ((const lh_models_entry *)b)->name);
}

lh_status lh_models_folder_list(const char *folder, lh_models_list *list, lh_error *error) {
    *list = (lh_models_list){0};
    listing l = {folder, list};
    lh_status status = visit_files(folder, add_file, &l, error);
    if (list->count)
        qsort(list->entries, list->count, sizeof *list->entries, compare_names);
    return status;
}

void lh_models_list_reset(lh_models_list *list) {
    free(list->entries);
    *list = (lh_models_list){0};
}

/* ---- Finding ---- */

/* `name` without .gguf and a part's number. */
static void bare_name(const char *name, char bare[LH_MODEL_NAME_BYTES]) {
    lh_gguf_part_name part;
    lh_gguf_part_name_parse(name, &part);
    snprintf(bare, LH_MODEL_NAME_BYTES, "%.*s",
             part.stem_bytes < LH_MODEL_NAME_BYTES ? (int)part.stem_bytes : 0, name);
}

static lh_status fail_unknown(const char *folder, const char *name, const lh_models_list *list,
                              lh_error *error) {
    char names[160] = "";
    for (size_t i = 0; i < list->count; i++) {
        size_t length = strlen(names);
        if (length + strlen(list->entries[i].name) + 8 > sizeof names) {
            snprintf(names + length, sizeof names - length, ", ...");
            break;
        }
        snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "",
                 list->entries[i].name);
    }
    return names[0]
               ? lh_fail(error, LH_ERR_NOT_FOUND, "there is no model %.50s in %.60s; there are: %s",
                         name, folder, names)
               : lh_fail(error, LH_ERR_NOT_FOUND,
                         "there is no model %.60s in %.120s, which has none: longhaul-gateway "
                         "pull fetches one",
                         name, folder);
}

/* *entry points into the list. */
static lh_status find(const char *folder, const char *name, lh_models_list *list,
                      const lh_models_entry **entry, lh_error *error) {
    char bare[LH_MODEL_NAME_BYTES];
    bare_name(name, bare);
    lh_status status = lh_models_folder_list(folder, list, error);
    for (size_t i = 0; status == LH_OK && i < list->count; i++)
        if (strcmp(list->entries[i].name, bare) == 0) {
            *entry = &list->entries[i];
            return LH_OK;
        }
    return status == LH_OK ? fail_unknown(folder, name, list, error) : status;
}

lh_status lh_models_folder_find(const char *folder, const char *name,
                                char path[LH_MODELS_PATH_BYTES], lh_error *error) {
    lh_models_list list;
    const lh_models_entry *entry = NULL;
    lh_status status = find(folder, name, &list, &entry, error);
    if (status == LH_OK && entry->is_partial)
        status = lh_fail(error, LH_ERR_NOT_FOUND,
                         "the model %.60s is not here as a whole yet: pull it again", name);
    if (status == LH_OK)
        snprintf(path, LH_MODELS_PATH_BYTES, "%s", entry->path);
    lh_models_list_reset(&list);
    return status;
}

lh_status lh_models_folder_check(const char *folder, const char *name, lh_error *error) {
    lh_models_list list;
    const lh_models_entry *entry;
    lh_status status = find(folder, name, &list, &entry, error);
    lh_models_list_reset(&list);
    return status;
}

/* ---- Removing ---- */

typedef struct removal {
    const char *folder, *name;
    uint64_t bytes;
} removal;

static lh_status remove_file(void *context, const char *file, const char *name, bool is_partial,
                             lh_error *error) {
    removal *r = context;
    char path[LH_MODELS_PATH_BYTES];
    struct stat info;
    (void)is_partial;
    if (strcmp(name, r->name) != 0)
        return LH_OK;
    snprintf(path, sizeof path, "%.750s/%.270s", r->folder, file);
    uint64_t bytes = stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    if (unlink(path) != 0)
        return lh_fail(error, LH_ERR_IO, "%.200s cannot be removed: %s", path, strerror(errno));
    r->bytes += bytes;
    return LH_OK;
}

lh_status lh_models_folder_remove(const char *folder, const char *name, uint64_t *bytes,
                                  lh_error *error) {
    lh_models_list list;
    const lh_models_entry *entry = NULL;
    removal r = {.folder = folder};
    lh_status status = find(folder, name, &list, &entry, error);
    if (status == LH_OK) {
        r.name = entry->name;
        status = visit_files(folder, remove_file, &r, error);
    }
    lh_models_list_reset(&list);
    *bytes = r.bytes;
    return status;
}
