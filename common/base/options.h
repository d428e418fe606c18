/* A program's options as one table, which gives the parser, the environment variables, the
 * configuration file (common/config), `--help`, docs/FLAGS.md, the manual pages, the completions of
 * bash and the sample files. Precedence: flag, then environment (LONGHAUL_<NAME>, dashes as
 * underscores; empty counts as unset), then default. Of a flag given twice the last counts. Thread:
 * start-up only. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum lh_option_kind {
    LH_OPTION_TEXT,   /* const char *: points into argv, the environment or the table */
    LH_OPTION_NUMBER, /* int64_t, within [minimum, maximum] */
    LH_OPTION_BYTES,  /* int64_t: digits and an optional K, M, G or T (powers of 1024) */
    LH_OPTION_CHOICE, /* const char *: one of `choices`, separated by '|' */
    /* bool: no value; the environment gives 1, true, on, yes or 0, false, off, no */
    LH_OPTION_FLAG
} lh_option_kind;

typedef struct lh_option {
    const char *name; /* without the dashes: "kv-bytes" */
    lh_option_kind kind;
    size_t offset; /* of the field in the target struct */
    /* parsed as if given; NULL: required, "" allowed for TEXT (means none) */
    const char *default_text;
    const char *placeholder; /* "BYTES"; NULL for a flag or choice */
    /* NUMBER and BYTES; both 0: no bound; maximum INT64_MAX: only a lower one */
    int64_t minimum, maximum;
    const char *choices; /* CHOICE */
    const char *help;    /* one sentence, without a final stop */
} lh_option;

typedef struct lh_option_table {
    const char *program;   /* "longhaul-worker" */
    const char *arguments; /* that stand before its options: "NAME"; NULL: none */
    const char *summary;   /* one sentence for the head of --help */
    const char *example;   /* one line as it is typed; NULL: none */
    const lh_option *options;
    size_t count;
    const struct lh_command *commands; /* [command_count] (commands.h); NULL: none */
    size_t command_count;
    bool needs_command; /* without one of these the program does nothing */
} lh_option_table;

typedef enum lh_option_action { LH_OPTIONS_RUN, LH_OPTIONS_EXIT } lh_option_action;

/* Fills `target` from argv and the environment. --help, --help=json and --version print to `out`
 * and give LH_OPTIONS_EXIT. Errors (LH_ERR_INVALID): unknown option (with the nearest name),
 * missing or unexpected value, value out of range, required option missing. */
lh_status lh_options_parse(const lh_option_table *table, int argc, char **argv, void *target,
                           FILE *out, lh_option_action *action, lh_error *error);

/* ---- One source after the other, for who has another one between them (common/config) ---- */

typedef enum lh_option_origin {
    LH_ORIGIN_NONE,
    LH_ORIGIN_DEFAULT,
    LH_ORIGIN_FILE,
    LH_ORIGIN_ENVIRONMENT,
    LH_ORIGIN_FLAG
} lh_option_origin;

/* Each fills what has no origin yet, and writes down that it was the one: `origins` has an element
 * for each row of the table, at first LH_ORIGIN_NONE. Errors are those of lh_options_parse; that a
 * required option is missing says the last one. */
lh_status lh_options_take_flags(const lh_option_table *table, int argc, char **argv, void *target,
                                lh_option_origin *origins, FILE *out, lh_option_action *action,
                                lh_error *error);
lh_status lh_options_take_environment(const lh_option_table *table, void *target,
                                      lh_option_origin *origins, lh_error *error);
lh_status lh_options_take_defaults(const lh_option_table *table, void *target,
                                   lh_option_origin *origins, lh_error *error);
/* The row of that name; NULL: there is none. */
const lh_option *lh_options_find(const lh_option_table *table, const char *name, size_t length);
