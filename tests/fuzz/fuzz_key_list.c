/* Files of keys: hostile text through the parser. What is taken lies within the documented ranges;
 * what is refused says on which line. */
#include "gateway/auth/key_list.h"

#include <stdlib.h>
#include <string.h>

static void need(bool condition) {
    if (!condition)
        abort();
}

static void check_key(const lh_key_list *list, const lh_key *key) {
    size_t length = strnlen(key->name, LH_KEY_NAME_BYTES);
    need(length > 0 && length < LH_KEY_NAME_BYTES);
    need(key->limits.requests_per_minute <= LH_KEY_RATE_MAX &&
         key->limits.tokens_per_minute <= LH_KEY_RATE_MAX &&
         key->limits.concurrent_requests <= LH_KEY_RATE_MAX &&
         key->limits.reading_ms_per_minute <= LH_KEY_RATE_MAX);
    need(lh_key_list_find(list, key->digest) == key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const lh_key_limits defaults = {1, 2, 3, 4};
    lh_key_list list;
    lh_error error;
    lh_status status = lh_key_list_parse((const char *)data, size, &defaults, &list, &error);
    need(status == LH_OK ||
         (status == LH_ERR_INVALID && list.count == 0 && strncmp(error.message, "line ", 5) == 0));
    for (size_t i = 0; i < list.count; i++)
        check_key(&list, &list.keys[i]);
    lh_key_list_reset(&list);
    return 0;
}
