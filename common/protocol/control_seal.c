/* The last line of a message of the control plane. */
#include "common/protocol/control_seal.h"

#include "common/base/crc32c.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEAL_BYTES (sizeof "\ncrc32c=01234567\n" - 1)

typedef struct seal {
    char text[SEAL_BYTES + 1];
} seal;

static seal seal_of(const char *worker_name, const char *bytes, size_t length) {
    seal made;
    uint32_t crc = lh_crc32c(lh_crc32c(0, worker_name, strlen(worker_name)), bytes, length);
    snprintf(made.text, sizeof(made.text), "\ncrc32c=%08x\n", crc);
    return made;
}

char *lh_control_seal(const char *worker_name, char *text) {
    if (!text)
        return NULL;
    size_t length = strlen(text);
    seal made = seal_of(worker_name, text, length);
    char *sealed = realloc(text, length + sizeof(made.text));
    if (!sealed) {
        free(text);
        return NULL;
    }
    memcpy(sealed + length, made.text, sizeof(made.text));
    return sealed;
}

lh_status lh_control_unseal(const char *worker_name, const char *bytes, size_t length,
                            size_t *text_bytes, lh_error *error) {
    if (length >= SEAL_BYTES) {
        seal expected = seal_of(worker_name, bytes, length - SEAL_BYTES);
        if (memcmp(bytes + length - SEAL_BYTES, expected.text, SEAL_BYTES) == 0) {
            *text_bytes = length - SEAL_BYTES;
            return LH_OK;
        }
    }
    return lh_fail(error, LH_ERR_CORRUPT,
                   "a message of the control plane has no checksum at its end, or another one: it "
                   "was damaged on its way, or whoever sent it is of another version");
}
