/* Flags, then the environment, then defaults, each through the same parser; options_help.c prints
 * the table. */
#include "common/base/options.h"

#include "common/base/nearest_name.h"
#include "common/base/option_value.h"
#include "common/base/options_help.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *field_of(const lh_option *option, void *target) {
    return (char *)target + option->offset;
}

/* ---- Flags ---- */

static lh_status fail_unknown(const lh_option_table *table, const char *name, size_t length,
                              lh_error *error) {
    lh_nearest_name nearest;
    lh_nearest_name_init(&nearest, name, length);
    for (size_t i = 0; i < table->count; i++)
        lh_nearest_name_try(&nearest, table->options[i].name);
    if (nearest.name)
        return lh_fail(error, LH_ERR_INVALID, "unknown option --%.*s; did you mean --%s?",
                       (int)length, name, nearest.name);
    return lh_fail(error, LH_ERR_INVALID, "unknown option --%.*s; --help lists them",
                   length < 80 ? (int)length : 80, name);
}

const lh_option *lh_options_find(const lh_option_table *table, const char *name, size_t length) {
    for (size_t i = 0; i < table->count; i++)
        if (strlen(table->options[i].name) == length &&
            strncmp(table->options[i].name, name, length) == 0)
            return &table->options[i];
    return NULL;
}

/* argv[*at] is a flag; *at moves on to its value where that is an argument of its own. */
static lh_status set_from_argument(const lh_option_table *table, int argc, char **argv, int *at,
                                   lh_option_origin *origins, void *target, lh_error *error) {
    const char *argument = argv[*at];
    if (argument[0] == '-' && argument[1] != '-' &&
        lh_options_find(table, argument + 1, strcspn(argument + 1, "=")))
        return lh_fail(error, LH_ERR_INVALID, "unexpected argument '%.64s'; did you mean -%.64s?",
                       argument, argument);
    if (strncmp(argument, "--", 2) != 0 || !argument[2])
        return lh_fail(error, LH_ERR_INVALID, "unexpected argument '%.64s'; options begin with --",
                       argument);
    size_t length = strcspn(argument + 2, "=");
    const char *value = argument[2 + length] ? argument + 2 + length + 1 : NULL;
    const lh_option *option = lh_options_find(table, argument + 2, length);
    if (!option)
        return fail_unknown(table, argument + 2, length, error);
    char source[LH_OPTION_NAME_BYTES + 2] = "--";
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
    origins[option - table->options] = LH_ORIGIN_FLAG;
    return lh_option_value_parse(option, source, value, field_of(option, target), error);
}

/* --help and --version act whatever else is given, unless something before them is wrong. */
static bool print_instead(const lh_option_table *table, const char *argument, FILE *out) {
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
        lh_options_print_help(table, out);
    else if (strcmp(argument, "--help=json") == 0)
        lh_options_print_json(table, out);
    else if (strcmp(argument, "--version") == 0)
        fprintf(out, "%s %s\n", table->program, LONGHAUL_VERSION);
    else
        return false;
    return true;
}

lh_status lh_options_take_flags(const lh_option_table *table, int argc, char **argv, void *target,
                                lh_option_origin *origins, FILE *out, lh_option_action *action,
                                lh_error *error) {
    *action = LH_OPTIONS_EXIT;
    for (int i = 1; i < argc; i++) {
        if (print_instead(table, argv[i], out))
            return LH_OK;
        lh_status status = set_from_argument(table, argc, argv, &i, origins, target, error);
        if (status != LH_OK)
            return status;
    }
    *action = LH_OPTIONS_RUN;
    return LH_OK;
}

/* ---- Environment and defaults ---- */

/* An empty variable counts as unset: compose files and units pass such. */
lh_status lh_options_take_environment(const lh_option_table *table, void *target,
                                      lh_option_origin *origins, lh_error *error) {
    for (size_t i = 0; i < table->count; i++) {
        const lh_option *option = &table->options[i];
        char variable[LH_OPTION_VARIABLE_BYTES];
        lh_option_variable_name(option, variable);
        const char *text = getenv(variable);
        if (origins[i] != LH_ORIGIN_NONE || !text || !*text)
            continue;
        origins[i] = LH_ORIGIN_ENVIRONMENT;
        lh_status status =
            lh_option_value_parse(option, variable, text, field_of(option, target), error);
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

static lh_status take_default(const lh_option *option, void *target, lh_error *error) {
    const char *text = option->default_text;
    char variable[LH_OPTION_VARIABLE_BYTES];
    if (option->kind == LH_OPTION_FLAG && (!text || !*text))
        text = "0";
    if (!text) {
        lh_option_variable_name(option, variable);
        return lh_fail(error, LH_ERR_INVALID, "--%s %s is required (or %s in the environment)",
                       option->name, lh_option_value_name(option), variable);
    }
    lh_status status =
        lh_option_value_parse(option, option->name, text, field_of(option, target), error);
    assert(status == LH_OK); /* a default is the program's own */
    return status;
}

lh_status lh_options_take_defaults(const lh_option_table *table, void *target,
                                   lh_option_origin *origins, lh_error *error) {
    for (size_t i = 0; i < table->count; i++) {
        if (origins[i] != LH_ORIGIN_NONE)
            continue;
        origins[i] = LH_ORIGIN_DEFAULT;
        lh_status status = take_default(&table->options[i], target, error);
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

lh_status lh_options_parse(const lh_option_table *table, int argc, char **argv, void *target,
                           FILE *out, lh_option_action *action, lh_error *error) {
    *action = LH_OPTIONS_EXIT;
    lh_option_origin *origins = calloc(table->count ? table->count : 1, sizeof *origins);
    if (!origins)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    lh_status status =
        lh_options_take_flags(table, argc, argv, target, origins, out, action, error);
    if (status == LH_OK && *action == LH_OPTIONS_RUN)
        status = lh_options_take_environment(table, target, origins, error);
    if (status == LH_OK && *action == LH_OPTIONS_RUN)
        status = lh_options_take_defaults(table, target, origins, error);
    free(origins);
    if (status != LH_OK)
        *action = LH_OPTIONS_EXIT;
    return status;
}
