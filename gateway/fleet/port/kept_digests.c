/* A file: the key, the digests, and the SHA-256 of both. */
#include "gateway/fleet/port/kept_digests.h"

#include "common/base/state_folder.h"
#include "common/gguf/tensor_blocks.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "model-digests"
/* Of the file's form. */
#define VERSION "digests 1"

static lh_status fail_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the model's digests");
}

lh_status lh_kept_digests_key_of(const lh_gguf_file *file, const char *header_sha256,
                                 lh_kept_digests_key key, lh_error *error) {
    static const char form[] = VERSION;
    const uint64_t rows = LH_TENSOR_BLOCK_ROWS;
    lh_sha256 *sha256;
    if (lh_sha256_create(&sha256) != LH_OK)
        return fail_memory(error);
    lh_status status = lh_gguf_file_stamp(file, sha256, error);
    if (status == LH_OK &&
        (lh_sha256_update(sha256, form, sizeof form) != LH_OK ||
         lh_sha256_update(sha256, &rows, sizeof rows) != LH_OK ||
         lh_sha256_update(sha256, header_sha256, strlen(header_sha256)) != LH_OK ||
         lh_sha256_finish(sha256, key) != LH_OK))
        status = fail_memory(error);
    lh_sha256_destroy(sha256);
    return status;
}

static size_t file_bytes(size_t length) {
    return LH_SHA256_BYTES + length + LH_SHA256_BYTES;
}

lh_status lh_kept_digests_read(const char *state_folder, const lh_kept_digests_key key, void *bytes,
                               size_t length, lh_error *error) {
    char *kept;
    size_t kept_bytes;
    uint8_t digest[LH_SHA256_BYTES];
    lh_status status =
        lh_state_file_read(state_folder, FILE_NAME, file_bytes(length), &kept, &kept_bytes, error);
    if (status == LH_ERR_LIMIT) /* of more tensors than these */
        return lh_fail(error, LH_ERR_NOT_FOUND, "the digests that are kept are of another model");
    if (status != LH_OK)
        return status;
    const size_t before = file_bytes(length) - LH_SHA256_BYTES;
    if (kept_bytes < LH_SHA256_BYTES || memcmp(kept, key, LH_SHA256_BYTES) != 0)
        status = lh_fail(error, LH_ERR_NOT_FOUND, "the digests that are kept are of another model");
    else if (kept_bytes != file_bytes(length) || lh_sha256_digest(kept, before, digest) != LH_OK ||
             memcmp(kept + before, digest, sizeof digest) != 0)
        status = lh_fail(error, LH_ERR_MALFORMED, "%s in the state folder is damaged", FILE_NAME);
    else
        memcpy(bytes, kept + LH_SHA256_BYTES, length);
    free(kept);
    return status;
}

lh_status lh_kept_digests_write(const char *state_folder, const lh_kept_digests_key key,
                                const void *bytes, size_t length, lh_error *error) {
    const size_t before = file_bytes(length) - LH_SHA256_BYTES;
    uint8_t *kept = malloc(file_bytes(length));
    if (!kept)
        return fail_memory(error);
    memcpy(kept, key, LH_SHA256_BYTES);
    memcpy(kept + LH_SHA256_BYTES, bytes, length);
    lh_status status =
        lh_sha256_digest(kept, before, kept + before) == LH_OK ? LH_OK : fail_memory(error);
    if (status == LH_OK)
        status = lh_state_file_write(state_folder, FILE_NAME, kept, file_bytes(length), error);
    free(kept);
    return status;
}
