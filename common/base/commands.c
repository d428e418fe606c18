/* The table first, then help, then what the word may have been. */
#include "common/base/commands.h"

#include "common/base/nearest_name.h"
#include "common/base/options_help.h"

#include <string.h>

#define USAGE_STATUS 2

static bool is_help(const char *word) {
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

static const lh_command *find(const lh_option_table *table, const char *word) {
    for (size_t i = 0; i < table->command_count; i++)
        if (strcmp(table->commands[i].name, word) == 0)
            return &table->commands[i];
    return NULL;
}

static int refuse(const lh_option_table *table, const char *word, FILE *err) {
    lh_nearest_name nearest;
    lh_nearest_name_init(&nearest, word, strlen(word));
    for (size_t i = 0; i < table->command_count; i++)
        lh_nearest_name_try(&nearest, table->commands[i].name);
    lh_nearest_name_try(&nearest, "help");
    fprintf(err, "%s: unknown command '%.64s'; ", table->program, word);
    if (nearest.name)
        fprintf(err, "did you mean %s?\n", nearest.name);
    else
        fprintf(err, "`%s help` lists them\n", table->program);
    return USAGE_STATUS;
}

/* help, and help COMMAND. */
static int help(const lh_option_table *table, int argc, char **argv, FILE *out, FILE *err) {
    const char *word = argc > 2 && !is_help(argv[2]) ? argv[2] : NULL;
    const lh_command *command = word ? find(table, word) : NULL;
    if (word && !command && strcmp(word, "help") != 0)
        return refuse(table, word, err);
    lh_options_print_help(command ? command->options : table, out);
    return 0;
}

/* False: the program is to see to it. */
static bool run(const lh_command *command, int argc, char **argv, FILE *out, int *status) {
    bool wants_help = argc > 2 && is_help(argv[2]);
    *status = 0;
    if (wants_help)
        lh_options_print_help(command->options, out);
    else if (command->run)
        *status = command->run(argc, argv);
    return wants_help || command->run;
}

bool lh_commands_run(const lh_option_table *table, int argc, char **argv, FILE *out, FILE *err,
                     int *status) {
    const char *word = argc > 1 ? argv[1] : "";
    const lh_command *command = find(table, word);
    if (command)
        return run(command, argc, argv, out, status);
    if (strcmp(word, "help") == 0) {
        *status = help(table, argc, argv, out, err);
    } else if (word[0] && word[0] != '-') {
        *status = refuse(table, word, err);
    } else if (table->needs_command && !word[0]) {
        lh_options_print_help(table, err);
        *status = USAGE_STATUS;
    } else {
        return false;
    }
    return true;
}

/* How many arguments a flag is, with its value. */
static int flag_length(const lh_option_table *table, const char *flag) {
    size_t length = strcspn(flag + 2, "=");
    const lh_option *option = lh_options_find(table, flag + 2, length);
    return option && option->kind != LH_OPTION_FLAG && !flag[2 + length] ? 2 : 1;
}

const char *lh_command_take_word(const lh_option_table *table, int *argc, char ***argv) {
    --*argc;
    ++*argv;
    int at = 1;
    while (at < *argc && strncmp((*argv)[at], "--", 2) == 0)
        at += flag_length(table, (*argv)[at]);
    if (at >= *argc)
        return NULL;
    const char *word = (*argv)[at];
    --*argc;
    for (; at < *argc; at++)
        (*argv)[at] = (*argv)[at + 1];
    return word;
}

bool lh_command_take_flags(const lh_option_table *table, int argc, char **argv, void *settings,
                           int *code) {
    lh_option_action action;
    lh_error error;
    *code = 0;
    if (lh_options_parse(table, argc, argv, settings, stdout, &action, &error) == LH_OK)
        return action != LH_OPTIONS_EXIT;
    *code = lh_command_refuse(table, error.message);
    return false;
}

int lh_command_refuse(const lh_option_table *table, const char *message) {
    fprintf(stderr, "%s: %s\n", table->program, message);
    return 2;
}

int lh_command_finish(const lh_option_table *table, lh_status status, const lh_error *error) {
    if (status == LH_OK)
        return 0;
    fprintf(stderr, "%s: %s\n", table->program, error->message);
    return 1;
}
