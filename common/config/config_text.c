/* Plain where it is surely that. */
#include "common/config/config_text.h"

#include "common/base/options_help.h"

#include <ctype.h>
#include <string.h>

/* Letters, digits and signs that mean nothing to YAML, as in paths, addresses and URLs; a colon
 * only before one of those. */
static bool is_plain(const char *text) {
    static const char signs[] = "._/+";
    if (!isalnum((unsigned char)*text) && (!*text || !strchr("._/", *text)))
        return false;
    for (const char *c = text; *c; c++) {
        bool is_within = c > text && (*c == '-' || *c == ',' || (*c == ':' && c[1]));
        if (!isalnum((unsigned char)*c) && !strchr(signs, *c) && !is_within)
            return false;
    }
    return strcmp(text, "null") != 0;
}

void lh_config_print_text(const char *text, FILE *out) {
    if (is_plain(text)) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            fprintf(out, "\\x%02x", (unsigned)*c);
        else
            fprintf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    fputc('"', out);
}

void lh_config_print_value(const lh_option *option, const void *target, FILE *out) {
    const void *field = (const char *)target + option->offset;
    char number[LH_OPTION_BOUND_BYTES];
    switch (option->kind) {
    case LH_OPTION_NUMBER:
    case LH_OPTION_BYTES:
        lh_option_render_bound(option, *(const int64_t *)field, number);
        fputs(number, out);
        return;
    case LH_OPTION_FLAG:
        fputs(*(const bool *)field ? "true" : "false", out);
        return;
    case LH_OPTION_TEXT:
    case LH_OPTION_CHOICE:
        lh_config_print_text(*(const char *const *)field, out);
        return;
    }
}
