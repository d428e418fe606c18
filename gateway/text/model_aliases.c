/* A walk from comma to comma. */
#include "gateway/text/model_aliases.h"

#include <string.h>

#define NAME_BYTES_MAX 255u

static bool is_any(const char *name, size_t length) {
    return length == 1 && name[0] == '*';
}

/* The name that *rest begins with, also an empty one; NULL: behind the last. */
static const char *take(const char **rest, size_t *length) {
    const char *name = *rest;
    if (!name)
        return NULL;
    *length = strcspn(name, ",");
    *rest = name[*length] ? name + *length + 1 : NULL;
    return name;
}

static bool is_name(const char *name, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
            return false;
    return length > 0 && length <= NAME_BYTES_MAX;
}

lh_status lh_model_aliases_check(const char *list, lh_error *error) {
    const char *rest = list[0] ? list : NULL, *name;
    size_t length, count = 0;
    while ((name = take(&rest, &length))) {
        if (!is_name(name, length))
            return lh_fail(error, LH_ERR_INVALID, "\"%.*s\" is no name of a model",
                           (int)(length < 80 ? length : 80), name);
        if (++count > LH_MODEL_ALIASES_MAX)
            return lh_fail(error, LH_ERR_LIMIT, "more than %u names", LH_MODEL_ALIASES_MAX);
    }
    return LH_OK;
}

bool lh_model_aliases_have(const char *list, const char *name) {
    const char *rest = list, *known;
    size_t length;
    while ((known = take(&rest, &length)))
        if (length > 0 &&
            (is_any(known, length) || (strlen(name) == length && memcmp(known, name, length) == 0)))
            return true;
    return false;
}

const char *lh_model_aliases_next(const char **rest, size_t *length) {
    const char *name;
    do
        name = take(rest, length);
    while (name && (*length == 0 || is_any(name, *length)));
    return name;
}
