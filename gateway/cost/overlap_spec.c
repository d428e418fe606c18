/* The parser of "auto|off|rows=N[,columns=K]". */
#include "gateway/cost/overlap_spec.h"

#include "common/protocol/step.h"

#include <stdbool.h>
#include <string.h>

/* "KEY=" and a decimal number in 1..maximum; *text moves behind it. */
static bool read_count(const char **text, const char *key, uint32_t maximum, uint32_t *count) {
    size_t length = strlen(key);
    if (strncmp(*text, key, length) != 0 || (*text)[length] < '1' || (*text)[length] > '9')
        return false;
    const char *digit = *text + length;
    uint32_t value = 0;
    for (; *digit >= '0' && *digit <= '9' && value <= maximum; digit++)
        value = value * 10 + (uint32_t)(*digit - '0');
    *text = digit;
    *count = value;
    return value <= maximum;
}

lh_status lh_overlap_spec_parse(const char *text, lh_overlap_spec *spec, lh_error *error) {
    lh_overlap_spec read = {.columns = 1};
    const char *rest = text;
    if (strcmp(text, "auto") == 0) {
        *spec = (lh_overlap_spec){.mode = LH_OVERLAP_AUTO};
        return LH_OK;
    }
    if (strcmp(text, "off") == 0) {
        *spec = (lh_overlap_spec){.mode = LH_OVERLAP_OFF};
        return LH_OK;
    }
    read.mode = LH_OVERLAP_MANUAL;
    bool is_sound =
        read_count(&rest, "rows=", LH_STEP_ROWS_MAX, &read.rows) &&
        (*rest == 0 || read_count(&rest, ",columns=", LH_STEP_COLUMN_SHARDS_MAX, &read.columns)) &&
        *rest == 0;
    if (!is_sound)
        return lh_fail(
            error, LH_ERR_INVALID,
            "\"%.60s\" is not auto, off or rows=N[,columns=K] with N in 1..%u and K in 1..%u", text,
            LH_STEP_ROWS_MAX, LH_STEP_COLUMN_SHARDS_MAX);
    *spec = read;
    return LH_OK;
}
