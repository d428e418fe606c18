/* What a worker that has joined keeps on its disk.
 *
 *   DIR/in-use           locked while a worker uses the folder; has its machine's name
 *   DIR/pending.pem      a key that may have been shown to a gateway, and has no certificate yet
 *   DIR/current          a symbolic link to the set that counts:
 *   DIR/set-XXXX/        gateway.url name site token key.pem certificate.pem trust.pem observed
 *                         host
 *
 * A set is written aside, file by file, and synced; then one rename of the link puts it in the
 * place of the one before. So whoever is killed at any moment finds the old set or the new one,
 * whole. Sets that nothing links to are swept away. Folders have mode 0700, files 0600.
 *
 * Thread: one at a time; the paths may be read by any. */
#pragma once

#include "common/protocol/join/join_messages.h"
#include "worker/membership/own_key.h"

typedef struct lh_membership_store lh_membership_store;

#define LH_MEMBERSHIP_URL_BYTES 512u

/* One set. All texts are whole: nothing is "" but the host. */
typedef struct lh_own_membership {
    char gateway_url[LH_MEMBERSHIP_URL_BYTES]; /* "https://192.0.2.1:7100" */
    char name[LH_NAME_BYTES], site[LH_NAME_BYTES];
    char token[LH_JOIN_ID_BYTES]; /* the id of the one by which it joined */
    char key[LH_OWN_KEY_BYTES], certificate[LH_JOIN_CERTIFICATE_BYTES], trust[LH_JOIN_TRUST_BYTES];
    char observed[LH_JOIN_HOST_BYTES]; /* the address from which the gateway saw it come */
    /* the one by which the gateway reached it when it joined; "": that which faces the gateway */
    char host[LH_JOIN_HOST_BYTES];
} lh_own_membership;

/* Whether there is a set in the folder, which may be missing. */
bool lh_membership_store_is_joined(const char *folder);

/* Whether the last worker that used the folder ran on this machine, or in this container: of
 * several that share a volume each has a name of its own. */
bool lh_membership_store_was_used_here(const char *folder);
/* Where the set that counts has its files, for whoever does not hold the folder. */
#define LH_MEMBERSHIP_PATH_BYTES 576u
typedef struct lh_membership_files {
    char certificate[LH_MEMBERSHIP_PATH_BYTES], key[LH_MEMBERSHIP_PATH_BYTES],
        trust[LH_MEMBERSHIP_PATH_BYTES];
} lh_membership_files;
void lh_membership_files_of(const char *folder, lh_membership_files *files);

/* Makes the folder where it is missing, and locks it until the store is closed. LH_ERR_BUSY:
 * another worker uses it; LH_ERR_INVALID: others may write in it; LH_ERR_IO; LH_ERR_NO_MEMORY.
 * Messages name the path and what to do. */
lh_status lh_membership_store_open(const char *folder, lh_membership_store **store,
                                   lh_error *error);
/* NULL is allowed. */
void lh_membership_store_close(lh_membership_store *store);

/* LH_ERR_NOT_FOUND: it has not joined; LH_ERR_INVALID, LH_ERR_LIMIT, LH_ERR_IO: which file, and
 * what is wrong with it. */
lh_status lh_membership_store_load(const lh_membership_store *store, lh_own_membership *membership,
                                   lh_error *error);
/* Puts a set in the place of the one before, and forgets the pending key. LH_ERR_IO: then the one
 * before counts. */
lh_status lh_membership_store_save(lh_membership_store *store, const lh_own_membership *membership,
                                   lh_error *error);

/* The key for the next certificate: that of a try that did not come to its end, which the gateway
 * may have certified already; or a new one, which is on the disk when this returns. LH_ERR_INVALID,
 * LH_ERR_LIMIT, LH_ERR_IO, LH_ERR_NO_MEMORY. */
lh_status lh_membership_store_pending_key(lh_membership_store *store, char key[LH_OWN_KEY_BYTES],
                                          lh_error *error);

/* The folder, and where the set that counts has its files; they live as long as the store. */
const char *lh_membership_store_path(const lh_membership_store *store);
const char *lh_membership_store_certificate_file(const lh_membership_store *store);
const char *lh_membership_store_key_file(const lh_membership_store *store);
const char *lh_membership_store_trust_file(const lh_membership_store *store);
