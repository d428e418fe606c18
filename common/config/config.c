/* The file goes between the sources of common/base/options.c. */
#include "common/config/config.h"

#include "common/base/nearest_name.h"
#include "common/base/option_value.h"
#include "common/config/config_file.h"
#include "common/config/config_text.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct lh_config {
    const lh_option_table *table;
    lh_option_origin *origins; /* of each row */
    uint32_t *lines;           /* of each row that the file has given */
    lh_config_file file;
    const char *path; /* argv's or the environment's; "": there is no file */
};

static const lh_option *row(const lh_config *config, const char *name) {
    const lh_option *option = lh_options_find(config->table, name, strlen(name));
    assert(option); /* LH_OPTION_CONFIG_ROWS */
    return option;
}

/* Those of LH_OPTION_CONFIG_ROWS are for one start, and say which file there is. */
static bool is_about_files(const char *name) {
    return strcmp(name, "config") == 0 || strcmp(name, "check-config") == 0 ||
           strcmp(name, "print-config") == 0;
}

/* ---- What the file says ---- */

static void tell_unknown(const lh_config *config, const lh_config_value *value,
                         lh_config_problems *problems) {
    lh_nearest_name nearest;
    lh_nearest_name_init(&nearest, value->name, strlen(value->name));
    for (size_t i = 0; i < config->table->count; i++)
        if (!is_about_files(config->table->options[i].name))
            lh_nearest_name_try(&nearest, config->table->options[i].name);
    if (nearest.name)
        lh_config_problems_add(problems, value->line, "unknown name %.64s: did you mean %s?",
                               value->name, nearest.name);
    else
        lh_config_problems_add(problems, value->line,
                               "unknown name %.64s: %s --help lists them, without --", value->name,
                               config->table->program);
}

/* "A,B,...": what takes several. */
static bool takes_list(const lh_option *option) {
    return option->placeholder && strstr(option->placeholder, ",...");
}

/* What a flag or the environment has said stays; that the file's value is one is checked all the
 * same. */
static void take_value(lh_config *config, const lh_config_value *value, void *target,
                       lh_config_problems *problems) {
    const lh_option *option = lh_options_find(config->table, value->name, strlen(value->name));
    lh_option_value parsed;
    lh_error error;
    if (!option) {
        tell_unknown(config, value, problems);
        return;
    }
    size_t at = (size_t)(option - config->table->options);
    void *field =
        config->origins[at] == LH_ORIGIN_NONE ? (char *)target + option->offset : (void *)&parsed;
    if (is_about_files(option->name))
        lh_config_problems_add(problems, value->line, "%s: is for the command line alone",
                               option->name);
    else if (value->is_list && !takes_list(option))
        lh_config_problems_add(problems, value->line, "%s: one value is wanted, and not a list",
                               option->name);
    else if (lh_option_value_parse(option, option->name, value->text, field, &error) != LH_OK)
        lh_config_problems_add(problems, value->line, "%s", error.message);
    else if (config->origins[at] == LH_ORIGIN_NONE)
        config->origins[at] = LH_ORIGIN_FILE;
    config->lines[at] = value->line;
}

static lh_status tell(const lh_config_problems *problems, FILE *complaints, lh_error *error) {
    if (problems->count == 0)
        return LH_OK;
    fwrite(problems->lines.bytes, 1, problems->lines.length, complaints);
    if (problems->count > LH_CONFIG_PROBLEMS_TOLD)
        return lh_fail(error, LH_ERR_INVALID, "--config %.200s: %zu faults, told are the first %d",
                       problems->path, problems->count, LH_CONFIG_PROBLEMS_TOLD);
    return lh_fail(error, LH_ERR_INVALID, "--config %.200s: %zu fault%s, told above",
                   problems->path, problems->count, problems->count == 1 ? "" : "s");
}

static lh_status take_file(lh_config *config, void *target, FILE *complaints, lh_error *error) {
    lh_config_problems problems = {.path = config->path};
    lh_status status = lh_config_file_read(&config->file, &problems, error);
    if (status == LH_OK) {
        for (size_t i = 0; i < config->file.count; i++)
            take_value(config, &config->file.values[i], target, &problems);
        status = tell(&problems, complaints, error);
    }
    lh_config_problems_reset(&problems);
    return status;
}

/* ---- What is in effect ---- */

static void print_origin(const lh_config *config, size_t at, FILE *out) {
    char variable[LH_OPTION_VARIABLE_BYTES];
    switch (config->origins[at]) {
    case LH_ORIGIN_FLAG:
        fprintf(out, "--%s", config->table->options[at].name);
        return;
    case LH_ORIGIN_ENVIRONMENT:
        lh_option_variable_name(&config->table->options[at], variable);
        fputs(variable, out);
        return;
    case LH_ORIGIN_FILE:
        fprintf(out, "%s:%u", config->path, config->lines[at]);
        return;
    case LH_ORIGIN_DEFAULT:
    case LH_ORIGIN_NONE:
        fputs("default", out);
        return;
    }
}

static void print(const lh_config *config, const void *target, FILE *out) {
    const lh_option_table *table = config->table;
    fprintf(out, "# What is in effect of %s %s, and where it comes from.\n", table->program,
            LONGHAUL_VERSION);
    for (size_t i = 0; i < table->count; i++) {
        if (is_about_files(table->options[i].name))
            continue;
        fprintf(out, "%s: ", table->options[i].name);
        lh_config_print_value(&table->options[i], target, out);
        fputs("  # ", out);
        print_origin(config, i, out);
        fputc('\n', out);
    }
}

/* Who misses a required option has one place more to give it than base knows. */
static lh_status take_defaults(lh_config *config, void *target, lh_error *error) {
    lh_error cause;
    lh_status status = lh_options_take_defaults(config->table, target, config->origins, &cause);
    return status == LH_OK
               ? LH_OK
               : lh_fail(error, status, "%s, or in the file of --config", cause.message);
}

static lh_status parse(lh_config *config, int argc, char **argv, void *target, FILE *out,
                       FILE *complaints, lh_option_action *action, lh_error *error) {
    const lh_option_table *table = config->table;
    lh_status status =
        lh_options_take_flags(table, argc, argv, target, config->origins, out, action, error);
    if (status != LH_OK || *action == LH_OPTIONS_EXIT)
        return status;
    status = lh_options_take_environment(table, target, config->origins, error);
    if (status != LH_OK)
        return status;
    const lh_option *file = row(config, "config"), *printing = row(config, "print-config");
    if (config->origins[file - table->options] != LH_ORIGIN_NONE)
        config->path = *(const char **)((char *)target + file->offset);
    if (config->path[0])
        status = take_file(config, target, complaints, error);
    if (status == LH_OK)
        status = take_defaults(config, target, error);
    if (status == LH_OK && *(bool *)((char *)target + printing->offset)) {
        print(config, target, out);
        *action = LH_OPTIONS_EXIT;
    }
    return status;
}

static lh_config *create(const lh_option_table *table) {
    lh_config *config = calloc(1, sizeof *config);
    if (!config)
        return NULL;
    config->table = table;
    config->path = "";
    config->origins = calloc(table->count, sizeof *config->origins);
    config->lines = calloc(table->count, sizeof *config->lines);
    if (config->origins && config->lines)
        return config;
    lh_config_destroy(config);
    return NULL;
}

lh_status lh_config_parse(const lh_option_table *table, int argc, char **argv, void *target,
                          FILE *out, FILE *complaints, lh_config **config, lh_option_action *action,
                          lh_error *error) {
    *action = LH_OPTIONS_EXIT;
    *config = create(table);
    if (!*config)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the options");
    lh_status status = parse(*config, argc, argv, target, out, complaints, action, error);
    if (status != LH_OK)
        *action = LH_OPTIONS_EXIT;
    if (status == LH_ERR_NO_MEMORY) {
        lh_config_destroy(*config);
        *config = NULL;
    }
    return status;
}

void lh_config_destroy(lh_config *config) {
    if (!config)
        return;
    lh_config_file_reset(&config->file);
    free(config->origins);
    free(config->lines);
    free(config);
}

/* ---- Where an option was given ---- */

/* The line on which the file has given it; 0: it has not, or something else goes before it. */
static uint32_t line_of(const lh_config *config, const char *name, size_t length) {
    const lh_option *option = lh_options_find(config->table, name, length);
    if (!option)
        return 0;
    size_t at = (size_t)(option - config->table->options);
    return config->origins[at] == LH_ORIGIN_FILE ? config->lines[at] : 0;
}

static uint32_t first_line_named(const lh_config *config, const char *message) {
    for (const char *at = message; (at = strstr(at, "--")); at += 2) {
        size_t length = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
        uint32_t line = line_of(config, at + 2, length - 2);
        if (line)
            return line;
    }
    return 0;
}

void lh_config_locate(const lh_config *config, const char *name, lh_error *error) {
    uint32_t line = config ? first_line_named(config, error->message) : 0;
    if (config && !line && name)
        line = line_of(config, name, strlen(name));
    if (!line)
        return;
    lh_error plain = *error;
    lh_fail(error, plain.status, "%.120s:%u: %s", config->path, line, plain.message);
}
