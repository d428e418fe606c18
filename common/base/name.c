/* One alphabet, which needs no escape in a path, a log line or JSON. */
#include "common/base/name.h"

#include <string.h>

bool lh_name_is_valid(const char *text) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(text);
    bool is_folder = strcmp(text, ".") == 0 || strcmp(text, "..") == 0;
    return length > 0 && length < LH_NAME_BYTES && strspn(text, letters) == length && !is_folder;
}
