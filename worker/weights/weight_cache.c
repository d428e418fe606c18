/* Writing aside, the lock of a partial file, and the set of files that this process has checked. */
#include "worker/weights/weight_cache.h"

#include "common/base/log.h"
#include "worker/weights/digest_set.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PARTIAL      "partial-" /* and six characters that mkostemp draws */
#define CREATE_TRIES 100        /* against a cleaner that takes a new file for an old one */

struct lh_weight_cache {
    char *folder;
    pthread_mutex_t lock; /* of what follows */
    lh_digest_set checked;
};

struct lh_weight_writer {
    lh_weight_cache *cache;
    lh_sha256 *sha256;
    uint8_t digest[LH_SHA256_BYTES];
    uint64_t bytes, written;
    int descriptor;
    char *path; /* of the partial file; empty once it is renamed */
};

/* The status of an errno: a full disk is a limit, not a broken object. */
static lh_status fail_errno(lh_error *error, int number, const char *path, const char *what) {
    bool is_full = number == ENOSPC || number == EDQUOT || number == EFBIG;
    return lh_fail(error, is_full ? LH_ERR_LIMIT : LH_ERR_IO, "weight cache: %s: %s: %s%s", path,
                   what, strerror(number),
                   is_full ? "; free some space or choose another cache folder" : "");
}

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "weight cache: out of memory");
}

/* "folder/name": malloc'd, or NULL. */
static char *path_of(const lh_weight_cache *cache, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", cache->folder, name) < 0 ? NULL : path;
}

static char *path_of_digest(const lh_weight_cache *cache, const uint8_t digest[LH_SHA256_BYTES]) {
    char hex[LH_SHA256_HEX_BYTES];
    lh_sha256_render(digest, hex);
    return path_of(cache, hex);
}

/* ---- The folder ---- */

/* mkdir -p; `folder` is changed on the way and put back. */
static lh_status make_folders(char *folder, lh_error *error) {
    for (char *slash = folder;;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        int result = mkdir(folder, 0777), number = errno;
        if (result != 0 && number == EEXIST) {
            struct stat info;
            result = stat(folder, &info) == 0 && S_ISDIR(info.st_mode) ? 0 : -1;
            number = ENOTDIR;
        }
        if (result != 0) {
            lh_status status = fail_errno(error, number, folder, "making the folder");
            if (slash)
                *slash = '/';
            return status;
        }
        if (!slash)
            return LH_OK;
        *slash = '/';
    }
}

/* Removes a partial file if no process holds its lock. */
static void remove_if_stale(const char *path) {
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0)
        return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && unlink(path) == 0)
        lh_log(LH_LOG_INFO, "weights", "removed the remains of an interrupted download file=%s",
               path);
    close(descriptor);
}

static lh_status remove_stale(const lh_weight_cache *cache, lh_error *error) {
    DIR *folder = opendir(cache->folder);
    if (!folder)
        return fail_errno(error, errno, cache->folder, "reading the folder");
    for (struct dirent *item; (item = readdir(folder));) {
        char *path = strncmp(item->d_name, PARTIAL, sizeof PARTIAL - 1) == 0
                         ? path_of(cache, item->d_name)
                         : NULL;
        if (path)
            remove_if_stale(path);
        free(path);
    }
    closedir(folder);
    return LH_OK;
}

lh_status lh_weight_cache_open(const char *folder, lh_weight_cache **cache, lh_error *error) {
    lh_weight_cache *opened = calloc(1, sizeof *opened);
    if (!opened)
        return fail_memory(error);
    pthread_mutex_init(&opened->lock, NULL);
    opened->folder = strdup(folder);
    lh_status status = opened->folder ? make_folders(opened->folder, error) : fail_memory(error);
    if (status == LH_OK)
        status = remove_stale(opened, error);
    if (status == LH_OK)
        *cache = opened;
    else
        lh_weight_cache_close(opened);
    return status;
}

void lh_weight_cache_close(lh_weight_cache *cache) {
    if (!cache)
        return;
    pthread_mutex_destroy(&cache->lock);
    lh_digest_set_reset(&cache->checked);
    free(cache->folder);
    free(cache);
}

const char *lh_weight_cache_folder(const lh_weight_cache *cache) {
    return cache->folder;
}

lh_status lh_weight_cache_sync(lh_weight_cache *cache, lh_error *error) {
    int descriptor = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 || fsync(descriptor) != 0) {
        int number = errno;
        if (descriptor >= 0)
            close(descriptor);
        return fail_errno(error, number, cache->folder, "syncing the folder");
    }
    close(descriptor);
    return LH_OK;
}

/* ---- Which files have been checked ---- */

bool lh_weight_cache_has_checked(lh_weight_cache *cache, const uint8_t name[LH_SHA256_BYTES]) {
    pthread_mutex_lock(&cache->lock);
    const bool found = lh_digest_set_has(&cache->checked, name);
    pthread_mutex_unlock(&cache->lock);
    return found;
}

/* Out of memory: it is only checked once more, later. */
void lh_weight_cache_note_checked(lh_weight_cache *cache, const uint8_t name[LH_SHA256_BYTES]) {
    pthread_mutex_lock(&cache->lock);
    lh_digest_set_add(&cache->checked, name);
    pthread_mutex_unlock(&cache->lock);
}

/* ---- Reading ---- */

static lh_status check(lh_weight_cache *cache, const char *path,
                       const uint8_t digest[LH_SHA256_BYTES], uint64_t bytes,
                       const lh_regular_file *file, lh_error *error) {
    if (lh_regular_file_size(file) != bytes)
        return lh_fail(error, LH_ERR_CORRUPT, "weight cache: %s: %llu bytes, %llu are wanted", path,
                       (unsigned long long)lh_regular_file_size(file), (unsigned long long)bytes);
    if (lh_weight_cache_has_checked(cache, digest))
        return LH_OK;
    uint8_t found[LH_SHA256_BYTES];
    lh_status status = lh_regular_file_digest(file, 0, bytes, NULL, found, error);
    if (status != LH_OK)
        return status;
    if (memcmp(found, digest, sizeof found) != 0)
        return lh_fail(error, LH_ERR_CORRUPT, "weight cache: %s: the bytes do not have this digest",
                       path);
    lh_weight_cache_note_checked(cache, digest);
    return LH_OK;
}

lh_status lh_weight_cache_find(lh_weight_cache *cache, const uint8_t digest[LH_SHA256_BYTES],
                               uint64_t bytes, lh_regular_file **file, lh_error *error) {
    lh_error problem;
    lh_regular_file *opened = NULL;
    char *path = path_of_digest(cache, digest);
    if (!path)
        return fail_memory(error);
    lh_status status = lh_regular_file_open(path, &opened, &problem);
    if (status == LH_OK)
        status = check(cache, path, digest, bytes, opened, &problem);
    if (status == LH_OK) {
        *file = opened;
        free(path);
        return LH_OK;
    }
    lh_regular_file_close(opened);
    /* INVALID: empty, which no tensor is */
    if (status == LH_ERR_CORRUPT || status == LH_ERR_INVALID) {
        lh_log(LH_LOG_WARN, "weights", "removed a damaged file of the cache reason=\"%s\"",
               problem.message);
        unlink(path);
        status = LH_ERR_NOT_FOUND;
    }
    free(path);
    return lh_fail(error, status, "%s", problem.message);
}

/* ---- Writing ---- */

/* A new file, locked and still there: one that a cleaner took away between the two steps is tried
 * again. */
static lh_status create_partial(lh_weight_writer *writer, lh_error *error) {
    for (int i = 0; i < CREATE_TRIES; i++) {
        struct stat info;
        free(writer->path);
        writer->path = path_of(writer->cache, PARTIAL "XXXXXX");
        if (!writer->path)
            return fail_memory(error);
        writer->descriptor = mkostemp(writer->path, O_CLOEXEC);
        if (writer->descriptor < 0) {
            lh_status status = fail_errno(error, errno, writer->cache->folder, "making a file");
            *writer->path = 0;
            return status;
        }
        if (flock(writer->descriptor, LOCK_EX | LOCK_NB) == 0 &&
            fstat(writer->descriptor, &info) == 0 && info.st_nlink > 0)
            return LH_OK;
        unlink(writer->path);
        close(writer->descriptor);
        writer->descriptor = -1;
        *writer->path = 0;
    }
    return lh_fail(error, LH_ERR_IO, "weight cache: %s: partial files vanish while they are made",
                   writer->cache->folder);
}

/* Asks for the space now rather than failing after an hour's download; file systems that cannot
 * tell are believed. */
static lh_status reserve(const lh_weight_writer *writer, lh_error *error) {
    if (writer->bytes == 0 || writer->bytes > INT64_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "weight cache: a file of %llu bytes",
                       (unsigned long long)writer->bytes);
    if (fallocate(writer->descriptor, 0, 0, (off_t)writer->bytes) == 0 || errno == EOPNOTSUPP ||
        errno == ENOSYS || errno == EINTR)
        return LH_OK;
    int number = errno;
    char what[64];
    snprintf(what, sizeof what, "reserving %llu bytes", (unsigned long long)writer->bytes);
    return fail_errno(error, number, writer->cache->folder, what);
}

lh_status lh_weight_writer_create(lh_weight_cache *cache, const uint8_t digest[LH_SHA256_BYTES],
                                  uint64_t bytes, lh_weight_writer **writer, lh_error *error) {
    lh_weight_writer *created = calloc(1, sizeof *created);
    if (!created)
        return fail_memory(error);
    created->cache = cache;
    created->bytes = bytes;
    created->descriptor = -1;
    memcpy(created->digest, digest, sizeof created->digest);
    lh_status status = lh_sha256_create(&created->sha256);
    if (status != LH_OK)
        fail_memory(error);
    else if ((status = create_partial(created, error)) == LH_OK)
        status = reserve(created, error);
    if (status == LH_OK)
        *writer = created;
    else
        lh_weight_writer_destroy(created);
    return status;
}

lh_status lh_weight_writer_append(lh_weight_writer *writer, const void *bytes, size_t length,
                                  lh_error *error) {
    assert(writer->written <= writer->bytes);
    if (length > writer->bytes - writer->written)
        return lh_fail(error, LH_ERR_LIMIT, "weight cache: more than the announced %llu bytes",
                       (unsigned long long)writer->bytes);
    const uint8_t *from = bytes;
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write(writer->descriptor, from + done, length - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return fail_errno(error, errno, writer->path, "writing");
        done += (size_t)wrote;
    }
    writer->written += length;
    return lh_sha256_update(writer->sha256, bytes, length) == LH_OK ? LH_OK : fail_memory(error);
}

static lh_status check_whole(lh_weight_writer *writer, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    char wanted[LH_SHA256_HEX_BYTES], found[LH_SHA256_HEX_BYTES];
    if (writer->written != writer->bytes)
        return lh_fail(error, LH_ERR_CORRUPT, "weight cache: %llu of %llu bytes came",
                       (unsigned long long)writer->written, (unsigned long long)writer->bytes);
    if (lh_sha256_finish(writer->sha256, digest) != LH_OK)
        return fail_memory(error);
    lh_sha256_render(writer->digest, wanted);
    lh_sha256_render(digest, found);
    if (memcmp(digest, writer->digest, sizeof digest) != 0)
        return lh_fail(error, LH_ERR_CORRUPT,
                       "weight cache: the bytes have the digest %.16s..., not %.16s...", found,
                       wanted);
    return LH_OK;
}

lh_status lh_weight_writer_commit(lh_weight_writer *writer, lh_error *error) {
    assert(*writer->path); /* once */
    lh_status status = check_whole(writer, error);
    if (status != LH_OK)
        return status;
    char *target = path_of_digest(writer->cache, writer->digest);
    if (!target)
        return fail_memory(error);
    if (fchmod(writer->descriptor, 0644) != 0 || fsync(writer->descriptor) != 0)
        status = fail_errno(error, errno, writer->path, "syncing");
    else if (rename(writer->path, target) != 0)
        status = fail_errno(error, errno, target, "renaming");
    free(target);
    if (status != LH_OK)
        return status;
    *writer->path = 0;
    lh_weight_cache_note_checked(writer->cache, writer->digest);
    return LH_OK;
}

void lh_weight_writer_destroy(lh_weight_writer *writer) {
    if (!writer)
        return;
    if (writer->path && *writer->path)
        unlink(writer->path); /* before the lock goes with the descriptor */
    if (writer->descriptor >= 0)
        close(writer->descriptor);
    lh_sha256_destroy(writer->sha256);
    free(writer->path);
    free(writer);
}

bool lh_weight_cache_free_bytes(const lh_weight_cache *cache, uint64_t *bytes) {
    struct statvfs disk;
    if (statvfs(cache->folder, &disk) != 0)
        return false;
    *bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return true;
}
