/* A small file with a secret: an API key, the private key of a certificate. It is read only where
 * nobody but this program and root may have read it. Thread: any.
 *
 * What is accepted is what libpq accepts of a key: the owner is this process's user or root, others
 * may do nothing, and the group may read it where root owns it. Root has then said who is in that
 * group: so a key of root:ssl-cert with mode 0640 passes, and a secret that Kubernetes mounts for
 * an fsGroup (root, 0440). A group of the user's own is on many systems everybody's. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <sys/types.h>

/* What is wrong with a file of that owner and mode, as `user` (effective) sees it; NULL: nothing. A
 * static text that ends with what to do. */
const char *lh_private_file_fault(uid_t owner, mode_t mode, uid_t user);

/* Reads the whole file into bytes[capacity]; no copy of it stays elsewhere. LH_ERR_INVALID: others
 * may use it (the message has the chmod or chown that helps); LH_ERR_LIMIT: it is longer;
 * LH_ERR_IO. Messages name the path, never what is in the file. */
lh_status lh_private_file_read(const char *path, char *bytes, size_t capacity, size_t *length,
                               lh_error *error);
