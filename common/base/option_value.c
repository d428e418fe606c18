/* A parser for each kind. */
#include "common/base/option_value.h"

#include "common/base/options_help.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether the text is one of the choices "a|b|c". */
static bool is_choice(const char *choices, const char *text) {
    size_t length = strlen(text);
    for (const char *choice = choices; *choice;) {
        size_t span = strcspn(choice, "|");
        if (span == length && strncmp(choice, text, span) == 0)
            return true;
        choice += span + (choice[span] == '|');
    }
    return false;
}

/* "12K" as 12288: false when it is no such text or does not fit. */
static bool parse_bytes(const char *text, int64_t *value) {
    static const char suffixes[] = "KMGT";
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno)
        return false;
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    if (*end && (!suffix || end[1]))
        return false;
    int64_t factor = suffix ? (int64_t)1 << 10 * (suffix - suffixes + 1) : 1;
    return !__builtin_mul_overflow((int64_t)number, factor, value);
}

static bool parse_number(const char *text, int64_t *value) {
    char *end;
    if (!isdigit((unsigned char)text[*text == '-']))
        return false;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return errno == 0 && *end == 0;
}

static bool parse_flag(const char *text, bool *value) {
    *value = is_choice("1|true|on|yes", text);
    return *value || is_choice("0|false|off|no", text);
}

static lh_status set_number(const lh_option *option, const char *source, const char *text,
                            int64_t *field, lh_error *error) {
    int64_t value = 0;
    bool is_bytes = option->kind == LH_OPTION_BYTES;
    if (!(is_bytes ? parse_bytes(text, &value) : parse_number(text, &value)))
        return lh_fail(error, LH_ERR_INVALID, "%s: '%.64s' is not %s", source, text,
                       is_bytes ? "a number of bytes (digits and an optional K, M, G or T)"
                                : "a whole number");
    if ((option->minimum || option->maximum) &&
        (value < option->minimum || value > option->maximum)) {
        char low[LH_OPTION_BOUND_BYTES], high[LH_OPTION_BOUND_BYTES];
        lh_option_render_bound(option, option->minimum, low);
        lh_option_render_bound(option, option->maximum, high);
        return lh_fail(error, LH_ERR_INVALID, "%s: %.64s is not in %s..%s", source, text, low,
                       high);
    }
    *field = value;
    return LH_OK;
}

lh_status lh_option_value_parse(const lh_option *option, const char *source, const char *text,
                                void *field, lh_error *error) {
    switch (option->kind) {
    case LH_OPTION_NUMBER:
    case LH_OPTION_BYTES:
        return set_number(option, source, text, field, error);
    case LH_OPTION_CHOICE:
        if (!is_choice(option->choices, text))
            return lh_fail(error, LH_ERR_INVALID, "%s: '%.64s' is none of %s", source, text,
                           option->choices);
        *(const char **)field = text;
        return LH_OK;
    case LH_OPTION_FLAG:
        if (!parse_flag(text, field))
            return lh_fail(error, LH_ERR_INVALID,
                           "%s: '%.64s' is neither 1, true, on, yes nor 0, false, off, no", source,
                           text);
        return LH_OK;
    case LH_OPTION_TEXT:
        break;
    }
    if (!*text && !option->default_text)
        return lh_fail(error, LH_ERR_INVALID, "%s: must not be empty", source);
    *(const char **)field = text;
    return LH_OK;
}

void lh_option_variable_name(const lh_option *option, char variable[LH_OPTION_VARIABLE_BYTES]) {
    assert(strlen(option->name) < LH_OPTION_NAME_BYTES);
    snprintf(variable, LH_OPTION_VARIABLE_BYTES, "LONGHAUL_%s", option->name);
    for (char *c = variable; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}
