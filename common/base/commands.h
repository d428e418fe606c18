/* The subcommands of a program, which its option table lists: their dispatch, `help`, and what a
 * wrong word may have meant. Thread: start-up only.
 *
 * Exit statuses of all programs: 0 all went well, 1 it did not, 2 the command line is wrong. */
#pragma once

#include "common/base/options.h"

#include <stdbool.h>

typedef struct lh_command {
    const char *name;               /* "key" */
    const char *summary;            /* a few words for the list, without a final stop */
    const lh_option_table *options; /* its arguments, its flags, its own help */
    /* As main, with the command at argv[1]; returns the exit status. NULL: the program itself sees
     * to it. */
    int (*run)(int argc, char **argv);
} lh_command;

/* Runs the command that argv[1] names, prints the help that it asks for (help, help COMMAND, -h,
 * --help, COMMAND -h) to `out`, or says on `err` what is wrong with it. True: that was all, and
 * *status is the exit status; false: the program goes on, without a command or with one that has no
 * run. */
bool lh_commands_run(const lh_option_table *table, int argc, char **argv, FILE *out, FILE *err,
                     int *status);

/* ---- What a command does first and last ---- */

/* The first word behind a command's name that is neither a flag of the table nor the value of one,
 * which is taken out of the arguments; NULL: none. argc and argv, as main has them, become those
 * for lh_command_take_flags. */
const char *lh_command_take_word(const lh_option_table *table, int *argc, char ***argv);
/* Reads its flags (lh_options_parse) from argv[1] on. True: it may run; false: it has printed its
 * help, or told stderr what is wrong, and *code is the exit status. */
bool lh_command_take_flags(const lh_option_table *table, int argc, char **argv, void *settings,
                           int *code);
/* Its words are wrong: tells stderr so and returns the exit status. */
int lh_command_refuse(const lh_option_table *table, const char *message);
/* It has run: returns the exit status; where that is not 0, tells stderr why. */
int lh_command_finish(const lh_option_table *table, lh_status status, const lh_error *error);
