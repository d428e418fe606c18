/* One file for each authority. */
#include "gateway/membership/authority_files.h"

#include "common/base/log.h"
#include "common/base/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX  (16u << 10)
#define FILE_NAME_BYTES (LH_AUTHORITY_ID_BYTES + 7) /* "ca-", ".pem" */

static void name_file(const char *id, char name[FILE_NAME_BYTES]) {
    snprintf(name, FILE_NAME_BYTES, "ca-%.16s.pem", id);
}

static lh_status write_authority(const char *folder, const lh_certificate_authority *authority,
                                 bool has_key, lh_error *error) {
    char name[FILE_NAME_BYTES];
    lh_text_buffer pem = {0};
    name_file(lh_certificate_authority_id(authority), name);
    lh_status status = has_key ? lh_certificate_authority_render_key(authority, &pem) : LH_OK;
    if (status == LH_OK)
        status = lh_certificate_authority_render_certificate(authority, &pem);
    if (status != LH_OK)
        lh_fail(error, status, "no memory for a CA");
    else
        status = lh_state_file_write(folder, name, pem.bytes, pem.length, error);
    if (pem.bytes)
        explicit_bzero(pem.bytes, pem.length);
    lh_text_buffer_reset(&pem);
    return status;
}

lh_status lh_authority_files_make(const char *folder, int64_t now_s, char id[LH_AUTHORITY_ID_BYTES],
                                  lh_error *error) {
    lh_certificate_authority *authority;
    lh_status status = lh_certificate_authority_make(now_s, &authority, error);
    if (status != LH_OK)
        return status;
    memcpy(id, lh_certificate_authority_id(authority), LH_AUTHORITY_ID_BYTES);
    status = write_authority(folder, authority, true, error);
    lh_certificate_authority_destroy(authority);
    return status;
}

static lh_status load(const char *folder, const char *id, lh_certificate_authority **authority,
                      lh_error *error) {
    char name[FILE_NAME_BYTES], *pem;
    size_t length;
    name_file(id, name);
    lh_status status = lh_state_file_read(folder, name, FILE_BYTES_MAX, &pem, &length, error);
    if (status != LH_OK)
        return status;
    lh_certificate_authority *parsed;
    status = lh_certificate_authority_parse(pem, length, &parsed, error);
    explicit_bzero(pem, length);
    free(pem);
    if (status != LH_OK)
        return status;
    if (strcmp(lh_certificate_authority_id(parsed), id) != 0) {
        lh_certificate_authority_destroy(parsed);
        return lh_fail(error, LH_ERR_INVALID, "it is another CA's");
    }
    *authority = parsed;
    return LH_OK;
}

lh_status lh_authority_files_load(const char *folder, const char *id,
                                  lh_certificate_authority **authority, lh_error *error) {
    lh_error cause;
    lh_status status = load(folder, id, authority, &cause);
    if (status == LH_OK)
        return LH_OK;
    return lh_fail(error, status == LH_ERR_NOT_FOUND ? LH_ERR_INVALID : status,
                   "the CA in %.100s/ca-%.16s.pem: %.150s", folder, id, cause.message);
}

lh_status lh_authority_files_render_trust(const char *folder, const lh_authority_list *list,
                                          lh_text_buffer *pem, lh_error *error) {
    for (size_t i = 0; i < list->count; i++) {
        lh_certificate_authority *authority;
        lh_status status = lh_authority_files_load(folder, list->entries[i].id, &authority, error);
        if (status != LH_OK)
            return status;
        status = lh_certificate_authority_render_certificate(authority, pem);
        lh_certificate_authority_destroy(authority);
        if (status != LH_OK)
            return lh_fail(error, status, "no memory for the bundle of CAs");
    }
    return LH_OK;
}

void lh_authority_files_drop_key(const char *folder, const char *id) {
    lh_certificate_authority *authority = NULL;
    lh_error error;
    lh_status status = lh_authority_files_load(folder, id, &authority, &error);
    if (status == LH_OK && lh_certificate_authority_has_key(authority))
        status = write_authority(folder, authority, false, &error);
    if (status != LH_OK)
        lh_log(LH_LOG_WARN, "fleet", "the key of a CA that signs no more may still be there: %s",
               error.message);
    lh_certificate_authority_destroy(authority);
}

void lh_authority_files_remove(const char *folder, const char *id) {
    char name[FILE_NAME_BYTES], path[LH_STATE_PATH_BYTES];
    name_file(id, name);
    if (lh_state_folder_path(folder, name, path, NULL) == LH_OK && unlink(path) != 0)
        lh_log(LH_LOG_WARN, "fleet", "cannot remove %s: %s", path, strerror(errno));
}

/* Of ca-ID.pem; false: it is another file. */
static bool parse_file_name(const char *name, char id[LH_AUTHORITY_ID_BYTES]) {
    if (strlen(name) != FILE_NAME_BYTES - 1 || strncmp(name, "ca-", 3) != 0 ||
        strcmp(name + FILE_NAME_BYTES - 5, ".pem") != 0)
        return false;
    snprintf(id, LH_AUTHORITY_ID_BYTES, "%s", name + 3);
    return true;
}

static bool has(const lh_authority_list *list, const char *id) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].id, id) == 0)
            return true;
    return false;
}

void lh_authority_files_remove_others(const char *folder, const lh_authority_list *list) {
    char id[LH_AUTHORITY_ID_BYTES];
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (parse_file_name(entry->d_name, id) && !has(list, id))
            lh_authority_files_remove(folder, id);
    closedir(directory);
}
