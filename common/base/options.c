/* Defaults, then the environment, then the flags, each through the same parser; options_help.c
 * prints the table. */
#include "common/base/options.h"

#include "common/base/options_help.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 64 /* of an option's name; the tables are ours */

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

/* Parses `text`, which `source` ("--threads", "LONGHAUL_THREADS") has given, into the option's
 * field. */
static lh_status set(const lh_option *option, const char *source, const char *text, void *target,
                     lh_error *error) {
    void *field = (char *)target + option->offset;
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

/* ---- Environment and defaults ---- */

static void render_variable(const lh_option *option, char variable[NAME_BYTES_MAX + 16]) {
    assert(strlen(option->name) < NAME_BYTES_MAX);
    snprintf(variable, NAME_BYTES_MAX + 16, "LONGHAUL_%s", option->name);
    for (char *c = variable; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* An empty variable counts as unset: compose files and units pass such. */
static lh_status set_before_flags(const lh_option *option, void *target, bool *given,
                                  lh_error *error) {
    char variable[NAME_BYTES_MAX + 16];
    render_variable(option, variable);
    const char *text = getenv(variable);
    if (text && *text) {
        *given = true;
        return set(option, variable, text, target, error);
    }
    text = option->default_text;
    if (option->kind == LH_OPTION_FLAG && (!text || !*text))
        text = "0";
    *given = text;
    if (!text)
        return LH_OK;
    lh_status status = set(option, option->name, text, target, error);
    assert(status == LH_OK); /* a default is the program's own */
    return status;
}

/* ---- Flags ---- */

/* Edits (insert, delete, replace) from a to b, both shorter than NAME_BYTES_MAX. */
static size_t distance(const char *a, size_t a_length, const char *b) {
    size_t row[NAME_BYTES_MAX + 1], b_length = strlen(b);
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_length];
}

static lh_status fail_unknown(const lh_option_table *table, const char *name, size_t length,
                              lh_error *error) {
    const char *nearest = NULL;
    size_t least = length / 3 + 2; /* further away than that is no slip of the finger */
    for (size_t i = 0; i < table->count && length < NAME_BYTES_MAX; i++) {
        size_t d = distance(name, length, table->options[i].name);
        if (d < least) {
            least = d;
            nearest = table->options[i].name;
        }
    }
    if (nearest)
        return lh_fail(error, LH_ERR_INVALID, "unknown option --%.*s; did you mean --%s?",
                       (int)length, name, nearest);
    return lh_fail(error, LH_ERR_INVALID, "unknown option --%.*s; --help lists them",
                   length < 80 ? (int)length : 80, name);
}

static const lh_option *find(const lh_option_table *table, const char *name, size_t length) {
    for (size_t i = 0; i < table->count; i++)
        if (strlen(table->options[i].name) == length &&
            strncmp(table->options[i].name, name, length) == 0)
            return &table->options[i];
    return NULL;
}

/* argv[*at] is a flag; *at moves on to its value where that is an argument of its own. */
static lh_status set_from_argument(const lh_option_table *table, int argc, char **argv, int *at,
                                   bool *given, void *target, lh_error *error) {
    const char *argument = argv[*at];
    if (strncmp(argument, "--", 2) != 0 || !argument[2])
        return lh_fail(error, LH_ERR_INVALID, "unexpected argument '%.64s'; options begin with --",
                       argument);
    size_t length = strcspn(argument + 2, "=");
    const char *value = argument[2 + length] ? argument + 2 + length + 1 : NULL;
    const lh_option *option = find(table, argument + 2, length);
    if (!option)
        return fail_unknown(table, argument + 2, length, error);
    char source[NAME_BYTES_MAX + 2] = "--";
    strcat(source, option->name);
    if (option->kind == LH_OPTION_FLAG) {
        if (value)
            return lh_fail(error, LH_ERR_INVALID, "%s: takes no value", source);
        value = "1";
    } else if (!value) {
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            return lh_fail(error, LH_ERR_INVALID, "%s: needs a value (%s)", source,
                           lh_option_value_name(option));
        value = argv[++*at];
    }
    given[option - table->options] = true;
    return set(option, source, value, target, error);
}

/* --help and --version act whatever else is given, unless something before them is wrong. */
static bool print_instead(const lh_option_table *table, const char *argument, FILE *out) {
    if (strcmp(argument, "--help") == 0)
        lh_options_print_help(table, out);
    else if (strcmp(argument, "--help=markdown") == 0)
        lh_options_print_markdown(table, out);
    else if (strcmp(argument, "--version") == 0)
        fprintf(out, "%s %s\n", table->program, LONGHAUL_VERSION);
    else
        return false;
    return true;
}

static lh_status parse(const lh_option_table *table, int argc, char **argv, void *target, FILE *out,
                       bool *given, lh_option_action *action, lh_error *error) {
    *action = LH_OPTIONS_EXIT;
    for (int i = 1; i < argc; i++) {
        if (print_instead(table, argv[i], out))
            return LH_OK;
        lh_status status = set_from_argument(table, argc, argv, &i, given, target, error);
        if (status != LH_OK)
            return status;
    }
    for (size_t i = 0; i < table->count; i++) {
        char variable[NAME_BYTES_MAX + 16];
        if (given[i])
            continue;
        render_variable(&table->options[i], variable);
        return lh_fail(error, LH_ERR_INVALID, "--%s %s is required (or %s in the environment)",
                       table->options[i].name, lh_option_value_name(&table->options[i]), variable);
    }
    *action = LH_OPTIONS_RUN;
    return LH_OK;
}

lh_status lh_options_parse(const lh_option_table *table, int argc, char **argv, void *target,
                           FILE *out, lh_option_action *action, lh_error *error) {
    bool *given = calloc(table->count ? table->count : 1, sizeof *given);
    if (!given)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    /* A wrong variable must not keep --help from working: it is reported after the flags are read.
     */
    lh_status before = LH_OK;
    lh_error before_error;
    for (size_t i = 0; i < table->count; i++) {
        lh_status one = set_before_flags(&table->options[i], target, &given[i],
                                         before == LH_OK ? &before_error : NULL);
        before = before == LH_OK ? one : before;
    }
    lh_status status = parse(table, argc, argv, target, out, given, action, error);
    free(given);
    if (status == LH_OK && *action == LH_OPTIONS_RUN && before != LH_OK) {
        *action = LH_OPTIONS_EXIT;
        return lh_fail(error, before, "%s", before_error.message);
    }
    return status;
}
