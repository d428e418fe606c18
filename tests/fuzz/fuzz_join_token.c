/* What somebody pastes: what is taken renders to the same text again, what is refused says why and
 * leaves nothing behind. */
#include "common/protocol/join/join_token.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const lh_join_token zeros;
    char *text = strndup((const char *)data, size), again[LH_JOIN_TOKEN_TEXT_BYTES];
    lh_join_token token;
    lh_error error = {.status = LH_OK};
    if (!text)
        return 0;
    if (lh_join_token_parse(text, &token, &error) == LH_OK) {
        lh_join_token_render(&token, again);
        if (strcmp(text, again) != 0)
            abort();
    } else if (error.message[0] == '\0' || memcmp(&token, &zeros, sizeof zeros) != 0) {
        abort();
    }
    free(text);
    return 0;
}
