/* A program's options (common/base/options.h) with a configuration file between environment and
 * defaults: what a flag says counts first, then LONGHAUL_<NAME>, then the file of --config, then
 * the default. Names in the file are the flags' without dashes before them. The file is read once.
 * Thread: start-up only. */
#pragma once

#include "common/base/options.h"

/* The rows below, in a program's settings. */
typedef struct lh_config_options {
    const char *file;  /* "": none */
    bool check, print; /* a start that ends after its checks; one that ends in lh_config_parse */
} lh_config_options;

/* Rows of an lh_option array, where `field` is the lh_config_options of the struct `type`. */
#define LH_OPTION_CONFIG_ROWS(type, field)                                                         \
    {.name = "config",                                                                             \
     .kind = LH_OPTION_TEXT,                                                                       \
     .offset = offsetof(type, field.file),                                                         \
     .default_text = "",                                                                           \
     .placeholder = "FILE",                                                                        \
     .help =                                                                                       \
         "YAML file with options, each as \"name: value\", read at the start alone; flags and "    \
         "the environment go before it"},                                                          \
        {.name = "check-config",                                                                   \
         .kind = LH_OPTION_FLAG,                                                                   \
         .offset = offsetof(type, field.check),                                                    \
         .default_text = "0",                                                                      \
         .help = "check the options and the files that they name, say all that is wrong as "       \
                 "FILE:LINE, and end: status 0 if nothing is"},                                    \
        {.name = "print-config",                                                                   \
         .kind = LH_OPTION_FLAG,                                                                   \
         .offset = offsetof(type, field.print),                                                    \
         .default_text = "0",                                                                      \
         .help =                                                                                   \
             "print what is in effect as such a file, and where each value comes from, and end"}

typedef struct lh_config lh_config;

/* Fills `target` from argv, the environment, the file and the table, which has
 * LH_OPTION_CONFIG_ROWS. Errors are those of lh_options_parse and these of the file
 * (LH_ERR_INVALID), all of which are printed to `complaints` first, one a line: it cannot be read,
 * is none (config_file.h), has an unknown name (with the nearest), a value that is none of its
 * option. --print-config prints to `out`, and gives LH_OPTIONS_EXIT as --help does. *config is
 * there in every case but LH_ERR_NO_MEMORY (NULL then), owns the texts that came from the file, and
 * is to be destroyed after the last use of the settings. */
lh_status lh_config_parse(const lh_option_table *table, int argc, char **argv, void *target,
                          FILE *out, FILE *complaints, lh_config **config, lh_option_action *action,
                          lh_error *error);
void lh_config_destroy(lh_config *config);

/* Puts FILE:LINE before a message about options, where the file has given the one that it is about:
 * the first that it names as --name, else `name` (NULL: no other). */
void lh_config_locate(const lh_config *config, const char *name, lh_error *error);
