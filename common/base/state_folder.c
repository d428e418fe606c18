/* open, fsync, rename, and fsync of the folder. */
#include "common/base/state_folder.h"

#include "common/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOCK_WAIT_MS = 10000, /* it is held for as long as a disk takes, but by one that was stopped */
    LOCK_PAUSE_MS = 5
};

static lh_status io_failure(const char *what, const char *path, lh_error *error) {
    return lh_fail(error, LH_ERR_IO, "cannot %s %.200s: %s", what, path, strerror(errno));
}

/* ---- Which folder ---- */

static const char *variable(const char *name) {
    const char *text = getenv(name);
    return text && text[0] == '/' ? text : NULL;
}

lh_status lh_state_folder_choose(const char *given, const char *program,
                                 char folder[LH_STATE_PATH_BYTES], lh_error *error) {
    const char *systemd = variable("STATE_DIRECTORY"), *state = variable("XDG_STATE_HOME"),
               *home = variable("HOME");
    int length = -1;
    if (given[0])
        length = snprintf(folder, LH_STATE_PATH_BYTES, "%s", given);
    else if (systemd) /* several are separated by colons */
        length = snprintf(folder, LH_STATE_PATH_BYTES, "%.*s", (int)strcspn(systemd, ":"), systemd);
    else if (geteuid() == 0)
        length = snprintf(folder, LH_STATE_PATH_BYTES, "/var/lib/longhaul/%s", program);
    else if (state)
        length = snprintf(folder, LH_STATE_PATH_BYTES, "%s/longhaul/%s", state, program);
    else if (home)
        length =
            snprintf(folder, LH_STATE_PATH_BYTES, "%s/.local/state/longhaul/%s", home, program);
    if (length < 0)
        return lh_fail(error, LH_ERR_INVALID, "no home folder is known: give --state-dir");
    if (length >= LH_STATE_PATH_BYTES)
        return lh_fail(error, LH_ERR_INVALID,
                       "the state folder's path is over %d bytes: give a "
                       "shorter --state-dir",
                       LH_STATE_PATH_BYTES - 1);
    return LH_OK;
}

/* All folders of the path, from the first on. Those above are for others' folders, too: the user of
 * a unit has to get through what root has made. */
static int make_path(char *path) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        int code = mkdir(path, 0755);
        *slash = '/';
        if (code != 0 && errno != EEXIST)
            return -1;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

lh_status lh_state_folder_make(const char *folder, lh_error *error) {
    char path[LH_STATE_PATH_BYTES];
    struct stat info;
    snprintf(path, sizeof path, "%s", folder);
    if (!path[0] || make_path(path) != 0 || stat(path, &info) != 0)
        return io_failure("make the state folder", folder, error);
    if (!S_ISDIR(info.st_mode))
        return lh_fail(error, LH_ERR_INVALID, "--state-dir %.200s is no folder", folder);
    if ((info.st_uid != geteuid() && info.st_uid != 0) || info.st_mode & (S_IWGRP | S_IWOTH))
        return lh_fail(error, LH_ERR_INVALID,
                       "others may write into the state folder %.150s: chown $(id -un) and chmod "
                       "700 it",
                       folder);
    return LH_OK;
}

/* By the folder and not by its path, which may lead through one that is root's alone, as systemd's
 * /var/lib/private is. */
lh_status lh_state_folder_act_as_owner(char folder[LH_STATE_PATH_BYTES], lh_error *error) {
    struct stat info;
    if (geteuid() != 0 || stat(folder, &info) != 0 || info.st_uid == 0)
        return LH_OK;
    if (chdir(folder) != 0 || setgroups(0, NULL) != 0 || setgid(info.st_gid) != 0 ||
        setuid(info.st_uid) != 0)
        return io_failure("act as the owner of the state folder", folder, error);
    strcpy(folder, ".");
    return LH_OK;
}

lh_status lh_state_folder_path(const char *folder, const char *name, char path[LH_STATE_PATH_BYTES],
                               lh_error *error) {
    if (snprintf(path, LH_STATE_PATH_BYTES, "%s/%s", folder, name) < LH_STATE_PATH_BYTES)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "the path of %.50s in the state folder is too long",
                   name);
}

/* ---- The lock ---- */

static lh_status lock_failure(const char *path, lh_error *error) {
    if (errno != EWOULDBLOCK)
        return io_failure("lock", path, error);
    return lh_fail(error, LH_ERR_BUSY, "another program has held %.200s for %d s", path,
                   LOCK_WAIT_MS / 1000);
}

lh_status lh_state_folder_lock(const char *folder, int *lock, lh_error *error) {
    char path[LH_STATE_PATH_BYTES];
    lh_status status = lh_state_folder_path(folder, "lock", path, error);
    if (status != LH_OK)
        return status;
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0 && errno == EROFS) /* a lock needs no right to write */
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0)
        return io_failure("open", path, error);
    int waited_ms = 0;
    while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || waited_ms >= LOCK_WAIT_MS) {
            status = lock_failure(path, error);
            close(descriptor);
            return status;
        }
        poll(NULL, 0, LOCK_PAUSE_MS);
        waited_ms += LOCK_PAUSE_MS;
    }
    *lock = descriptor;
    return LH_OK;
}

void lh_state_folder_unlock(int lock) {
    close(lock);
}

/* ---- Files ---- */

static bool write_all(int descriptor, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(descriptor, bytes, length);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
    }
    return fsync(descriptor) == 0;
}

/* A rename is on the disk when the folder is. A disk that is read only misses nothing. */
static bool flush_folder(const char *folder) {
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_flushed = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EROFS);
    if (descriptor >= 0)
        close(descriptor);
    return is_flushed;
}

static lh_status write_aside(const char *path, const void *bytes, size_t length, lh_error *error) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        return io_failure("open", path, error);
    bool is_written = fchmod(descriptor, 0600) == 0 && write_all(descriptor, bytes, length);
    lh_status status = is_written ? LH_OK : io_failure("write", path, error);
    if (close(descriptor) != 0 && status == LH_OK)
        status = io_failure("write", path, error);
    if (status != LH_OK)
        unlink(path);
    return status;
}

/* Whether what can be read from it is these bytes. */
static bool reads_as(int descriptor, const char *bytes, size_t length) {
    char found[512];
    size_t at = 0;
    ssize_t count;
    bool is_same = true;
    while (is_same && (count = read(descriptor, found, sizeof found)) != 0) {
        is_same = count > 0 && (size_t)count <= length - at &&
                  memcmp(found, bytes + at, (size_t)count) == 0;
        at += is_same ? (size_t)count : 0;
    }
    explicit_bzero(found, sizeof found);
    return is_same && at == length;
}

/* Whether the file already has these bytes, and no other user may read it. */
static bool has_bytes(const char *path, const void *bytes, size_t length) {
    struct stat info;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0)
        return false;
    bool is_same = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
                   !lh_private_file_fault(info.st_uid, info.st_mode, geteuid()) &&
                   reads_as(descriptor, bytes, length);
    close(descriptor);
    return is_same;
}

lh_status lh_state_file_write(const char *folder, const char *name, const void *bytes,
                              size_t length, lh_error *error) {
    char path[LH_STATE_PATH_BYTES], aside[LH_STATE_PATH_BYTES], aside_name[LH_STATE_PATH_BYTES];
    snprintf(aside_name, sizeof aside_name, "%.*s.new", LH_STATE_PATH_BYTES - 8, name);
    lh_status status = lh_state_folder_path(folder, name, path, error);
    if (status == LH_OK)
        status = lh_state_folder_path(folder, aside_name, aside, error);
    if (status == LH_OK && has_bytes(path, bytes, length) && flush_folder(folder))
        return LH_OK;
    if (status == LH_OK)
        status = write_aside(aside, bytes, length, error);
    if (status != LH_OK)
        return status;
    if (rename(aside, path) != 0 || !flush_folder(folder))
        return io_failure("replace", path, error);
    return LH_OK;
}

lh_status lh_state_file_read(const char *folder, const char *name, size_t length_max, char **bytes,
                             size_t *length, lh_error *error) {
    char path[LH_STATE_PATH_BYTES];
    struct stat info;
    lh_status status = lh_state_folder_path(folder, name, path, error);
    if (status != LH_OK)
        return status;
    if (stat(path, &info) != 0 && errno == ENOENT)
        return lh_fail(error, LH_ERR_NOT_FOUND, "there is no %.200s", path);
    char *text = malloc(length_max + 1);
    if (!text)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %.200s", path);
    status = lh_private_file_read(path, text, length_max, length, error);
    if (status != LH_OK) {
        free(text);
        return status;
    }
    text[*length] = '\0';
    *bytes = text;
    return LH_OK;
}
