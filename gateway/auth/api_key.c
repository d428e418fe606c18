/* Random bytes, a file of one line, and a header. */
#include "gateway/auth/api_key.h"

#include "common/base/private_file.h"
#include "common/base/random_id.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void lh_api_key_make(char text[LH_API_KEY_BYTES]) {
    char half[2][LH_RANDOM_ID_BYTES];
    lh_random_id("lh-", half[0]);
    lh_random_id("", half[1]);
    snprintf(text, LH_API_KEY_BYTES, "%s%s", half[0], half[1]);
    explicit_bzero(half, sizeof half);
}

static bool is_key(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return length > 0 && length < LH_API_KEY_BYTES;
}

lh_status lh_api_key_read(const char *path, char *text, lh_error *error) {
    char line[LH_API_KEY_BYTES + 1]; /* a key and its end of line */
    size_t length;
    lh_status status = lh_private_file_read(path, line, sizeof line, &length, error);
    if (status && status != LH_ERR_LIMIT)
        return status;
    if (!status && length > 0 && line[length - 1] == '\n')
        length--;
    if (!status && is_key(line, length)) {
        memcpy(text, line, length);
        text[length] = '\0';
    } else {
        status = lh_fail(error, LH_ERR_INVALID,
                         "%s must hold one line, the key: 1 to %d visible ASCII characters", path,
                         LH_API_KEY_BYTES - 1);
    }
    explicit_bzero(line, sizeof line);
    return status;
}

bool lh_api_key_digest_shown(const char *authorization, uint8_t digest[LH_SHA256_BYTES]) {
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *shown = authorization + 7;
    shown += strspn(shown, " ");
    return lh_sha256_digest(shown, strlen(shown), digest) == LH_OK;
}
