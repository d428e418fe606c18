/* The digests of a model's tensors, kept in the gateway's state folder from one start to the next:
 * a large file takes minutes to be read through, and until then no worker is given anything. They
 * hold for the very files that they were computed of, by inode, size and times; a file that is
 * copied or written to has others. Should that ever be deceived, nothing wrong is computed: workers
 * check what they are given against the digests. One model's are kept, the last one's. Thread: any,
 * one at a time. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/gguf/gguf_file.h"

#include <stddef.h>
#include <stdint.h>

typedef uint8_t lh_kept_digests_key[LH_SHA256_BYTES];

/* What the digests depend on. header_sha256: of the file's header, in hex. LH_ERR_IO,
 * LH_ERR_NO_MEMORY. */
lh_status lh_kept_digests_key_of(const lh_gguf_file *file, const char *header_sha256,
                                 lh_kept_digests_key key, lh_error *error);
/* bytes[length]: as they were written under that key. LH_ERR_NOT_FOUND: nothing is kept, or of
 * other files; LH_ERR_MALFORMED: what is kept is damaged; errors of lh_state_file_read. */
lh_status lh_kept_digests_read(const char *state_folder, const lh_kept_digests_key key, void *bytes,
                               size_t length, lh_error *error);
/* Replaces what is kept. LH_ERR_NO_MEMORY, errors of lh_state_file_write. */
lh_status lh_kept_digests_write(const char *state_folder, const lh_kept_digests_key key,
                                const void *bytes, size_t length, lh_error *error);
