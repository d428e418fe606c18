/* Files written aside, synced and linked by one rename. */
#include "worker/membership/membership_store.h"

#include "common/base/private_file.h"
#include "common/base/random_id.h"
#include "common/base/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PENDING "pending.pem"
#define IN_USE  "in-use"

enum {
    SET_NAME_BYTES = 32,
    MACHINE_BYTES = 256, /* HOST_NAME_MAX is 64 */
    /* of a set, or of a file in one */
    PATH_BYTES = LH_MEMBERSHIP_PATH_BYTES
};

struct lh_membership_store {
    char path[LH_STATE_PATH_BYTES];
    int folder, lock; /* descriptors */
    lh_membership_files files;
};

/* What a set has, file by file. */
static const struct {
    const char *name;
    size_t offset, capacity; /* of the field of lh_own_membership */
    bool may_be_empty;
} files[] = {
#define FIELD(name, field, may_be_empty)                                                           \
    {name, offsetof(lh_own_membership, field), sizeof((lh_own_membership *)0)->field, may_be_empty}
    FIELD("gateway.url", gateway_url, false),
    FIELD("name", name, false),
    FIELD("site", site, false),
    FIELD("token", token, false),
    FIELD("key.pem", key, false),
    FIELD("certificate.pem", certificate, false),
    FIELD("trust.pem", trust, false),
    FIELD("observed", observed, false),
    FIELD("host", host, true),
#undef FIELD
};

enum { FILES = sizeof files / sizeof files[0] };

static lh_status io_failure(const lh_membership_store *store, const char *what, lh_error *error) {
    return lh_fail(error, LH_ERR_IO, "state folder %.200s: %s: %s", store->path, what,
                   strerror(errno));
}

/* ---- Sweeping ---- */

/* What stands in the folder. NULL: it cannot be read. */
static DIR *list(int folder, const char *name) {
    int descriptor = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *entries = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (!entries && descriptor >= 0)
        close(descriptor);
    return entries;
}

static void remove_set(int folder, const char *name) {
    DIR *entries = list(folder, name);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        unlinkat(dirfd(entries), entry->d_name, 0); /* not . and .., which are folders */
    if (entries)
        closedir(entries);
    unlinkat(folder, name, AT_REMOVEDIR);
}

/* What a worker that was killed has left. It is in nobody's way, so that a failure does not count.
 */
static void sweep(const lh_membership_store *store) {
    char current[SET_NAME_BYTES] = "";
    ssize_t length = readlinkat(store->folder, "current", current, sizeof current - 1);
    bool is_known = length > 0 || errno == ENOENT;
    DIR *entries = is_known ? list(store->folder, ".") : NULL;
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strncmp(entry->d_name, "set-", 4) == 0 && strcmp(entry->d_name, current) != 0)
            remove_set(store->folder, entry->d_name);
    if (entries)
        closedir(entries);
    unlinkat(store->folder, "current.new", 0);
}

/* ---- Opening ---- */

bool lh_membership_store_is_joined(const char *folder) {
    char link[PATH_BYTES];
    struct stat info;
    int length = snprintf(link, sizeof link, "%s/current", folder);
    return length > 0 && (size_t)length < sizeof link && stat(link, &info) == 0;
}

static void name_machine(char name[MACHINE_BYTES]) {
    if (gethostname(name, MACHINE_BYTES) != 0)
        name[0] = '\0';
    name[MACHINE_BYTES - 1] = '\0';
}

bool lh_membership_store_was_used_here(const char *folder) {
    char own[MACHINE_BYTES], path[PATH_BYTES], found[MACHINE_BYTES] = "";
    name_machine(own);
    snprintf(path, sizeof path, "%.*s/" IN_USE, LH_STATE_PATH_BYTES - 1, folder);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool is_read = descriptor >= 0 && read(descriptor, found, sizeof found - 1) >= 0;
    if (descriptor >= 0)
        close(descriptor);
    return is_read && strcmp(found, own) == 0;
}

/* For lh_membership_store_was_used_here and for people, so that a failure does not count. What is
 * there already is not written again: on a full disk it would be lost. */
static void note_machine(int descriptor) {
    char name[MACHINE_BYTES], found[MACHINE_BYTES] = "";
    name_machine(name);
    if (pread(descriptor, found, sizeof found - 1, 0) >= 0 && strcmp(found, name) == 0)
        return;
    if (ftruncate(descriptor, 0) != 0 ||
        pwrite(descriptor, name, strlen(name), 0) != (ssize_t)strlen(name))
        return;
}

static lh_status lock(lh_membership_store *store, lh_error *error) {
    store->lock = openat(store->folder, IN_USE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (store->lock < 0 && errno == EROFS) /* a lock needs no right to write */
        store->lock = openat(store->folder, IN_USE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (store->lock >= 0 && flock(store->lock, LOCK_EX | LOCK_NB) == 0) {
        note_machine(store->lock);
        return LH_OK;
    }
    if (store->lock < 0 || errno != EWOULDBLOCK)
        return io_failure(store, "cannot be locked", error);
    return lh_fail(error, LH_ERR_BUSY,
                   "state folder %.200s: another worker uses it; each worker of a machine has one "
                   "of its own: --state-dir DIR",
                   store->path);
}

void lh_membership_files_of(const char *folder, lh_membership_files *paths) {
    const int length_max = LH_STATE_PATH_BYTES - 1;
    snprintf(paths->certificate, PATH_BYTES, "%.*s/current/certificate.pem", length_max, folder);
    snprintf(paths->key, PATH_BYTES, "%.*s/current/key.pem", length_max, folder);
    snprintf(paths->trust, PATH_BYTES, "%.*s/current/trust.pem", length_max, folder);
}

static lh_status open_folder(lh_membership_store *store, lh_error *error) {
    lh_status status = lh_state_folder_make(store->path, error);
    if (status != LH_OK)
        return status;
    store->folder = open(store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->folder < 0)
        return io_failure(store, "cannot be opened", error);
    status = lock(store, error);
    if (status == LH_OK)
        sweep(store);
    return status;
}

lh_status lh_membership_store_open(const char *folder, lh_membership_store **out, lh_error *error) {
    if (strlen(folder) >= LH_STATE_PATH_BYTES)
        return lh_fail(error, LH_ERR_INVALID, "--state-dir: the path is too long");
    lh_membership_store *store = calloc(1, sizeof *store);
    if (!store)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    store->folder = store->lock = -1;
    snprintf(store->path, sizeof store->path, "%s", folder);
    lh_membership_files_of(folder, &store->files);
    lh_status status = open_folder(store, error);
    if (status == LH_OK)
        *out = store;
    else
        lh_membership_store_close(store);
    return status;
}

void lh_membership_store_close(lh_membership_store *store) {
    if (!store)
        return;
    if (store->lock >= 0)
        close(store->lock);
    if (store->folder >= 0)
        close(store->folder);
    free(store);
}

/* ---- Reading ---- */

/* A line's end behind a short text is somebody's editor. */
static void trim(char *text) {
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n' && text[0] != '-')
        text[length - 1] = '\0';
}

static lh_status read_file(const lh_membership_store *store, const char *name, char *text,
                           size_t capacity, lh_error *error) {
    char path[PATH_BYTES];
    size_t length;
    snprintf(path, sizeof path, "%s/%s", store->path, name);
    lh_status status = lh_private_file_read(path, text, capacity - 1, &length, error);
    if (status != LH_OK)
        return status;
    text[length] = '\0';
    return strlen(text) == length ? LH_OK
                                  : lh_fail(error, LH_ERR_INVALID, "%.250s is damaged", path);
}

lh_status lh_membership_store_load(const lh_membership_store *store, lh_own_membership *membership,
                                   lh_error *error) {
    *membership = (lh_own_membership){0};
    if (!lh_membership_store_is_joined(store->path))
        return lh_fail(error, LH_ERR_NOT_FOUND, "state folder %.250s: nothing has joined here",
                       store->path);
    for (size_t i = 0; i < FILES; i++) {
        char name[64], *text = (char *)membership + files[i].offset;
        snprintf(name, sizeof name, "current/%s", files[i].name);
        lh_status status = read_file(store, name, text, files[i].capacity, error);
        if (status != LH_OK)
            return status;
        trim(text);
        if (text[0] == '\0' && !files[i].may_be_empty)
            return lh_fail(error, LH_ERR_INVALID, "%.200s/%s is empty", store->path, name);
    }
    return LH_OK;
}

/* ---- Writing ---- */

static lh_status write_set(const lh_membership_store *store, const char *name,
                           const lh_own_membership *membership, lh_error *error) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", store->path, name);
    if (mkdir(path, 0700) != 0)
        return io_failure(store, "cannot be written", error);
    lh_status status = LH_OK;
    for (size_t i = 0; i < FILES && status == LH_OK; i++) {
        const char *text = (const char *)membership + files[i].offset;
        status = lh_state_file_write(path, files[i].name, text, strlen(text), error);
    }
    return status;
}

/* The one moment at which another set counts. */
static lh_status link_set(const lh_membership_store *store, const char *name, lh_error *error) {
    int folder = store->folder;
    if (fsync(folder) == 0 && symlinkat(name, folder, "current.new") == 0 &&
        renameat(folder, "current.new", folder, "current") == 0 && fsync(folder) == 0)
        return LH_OK;
    return io_failure(store, "cannot be written", error);
}

lh_status lh_membership_store_save(lh_membership_store *store, const lh_own_membership *membership,
                                   lh_error *error) {
    char name[SET_NAME_BYTES];
    snprintf(name, sizeof name, "set-%016" PRIx64, lh_random_u64());
    lh_status status = write_set(store, name, membership, error);
    if (status == LH_OK)
        status = link_set(store, name, error);
    if (status == LH_OK)
        unlinkat(store->folder, PENDING, 0);
    sweep(store);
    return status;
}

/* ---- The next key ---- */

lh_status lh_membership_store_pending_key(lh_membership_store *store, char key[LH_OWN_KEY_BYTES],
                                          lh_error *error) {
    if (faccessat(store->folder, PENDING, F_OK, 0) == 0)
        return read_file(store, PENDING, key, LH_OWN_KEY_BYTES, error);
    lh_status status = lh_own_key_make(key, error);
    return status == LH_OK ? lh_state_file_write(store->path, PENDING, key, strlen(key), error)
                           : status;
}

/* ---- Paths ---- */

const char *lh_membership_store_path(const lh_membership_store *store) {
    return store->path;
}

const char *lh_membership_store_certificate_file(const lh_membership_store *store) {
    return store->files.certificate;
}

const char *lh_membership_store_key_file(const lh_membership_store *store) {
    return store->files.key;
}

const char *lh_membership_store_trust_file(const lh_membership_store *store) {
    return store->files.trust;
}
