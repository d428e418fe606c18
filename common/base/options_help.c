/* --help: flags on the left, meaning on the right, words wrapped; --help=json: the same for
 * programs. */
#include "common/base/options_help.h"

#include "common/base/commands.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define COLUMNS     80
#define HELP_COLUMN 30 /* where meanings begin */

void lh_option_render_bound(const lh_option *option, int64_t value,
                            char text[LH_OPTION_BOUND_BYTES]) {
    static const char suffixes[] = {0, 'K', 'M', 'G', 'T', 0};
    size_t unit = 0;
    while (option->kind == LH_OPTION_BYTES && value && value % 1024 == 0 && suffixes[unit + 1]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, LH_OPTION_BOUND_BYTES, "%" PRId64 "%.1s", value, &suffixes[unit]);
}

const char *lh_option_value_name(const lh_option *option) {
    if (option->kind == LH_OPTION_FLAG)
        return "";
    return option->kind == LH_OPTION_CHOICE ? option->choices : option->placeholder;
}

/* What follows the meaning: " (default 4; 1..1024)", or nothing. */
static void render_remark(const lh_option *option, char *text, size_t size) {
    char low[LH_OPTION_BOUND_BYTES], high[LH_OPTION_BOUND_BYTES],
        bounds[2 * LH_OPTION_BOUND_BYTES + 4] = "";
    if (option->minimum || option->maximum) {
        lh_option_render_bound(option, option->minimum, low);
        lh_option_render_bound(option, option->maximum, high);
        if (option->maximum == INT64_MAX)
            snprintf(bounds, sizeof bounds, "; at least %s", low);
        else
            snprintf(bounds, sizeof bounds, "; %s..%s", low, high);
    }
    if (option->kind == LH_OPTION_FLAG || (option->default_text && !*option->default_text))
        *text = 0; /* where empty means more than nothing, the help says what */
    else if (!option->default_text)
        snprintf(text, size, " (required%s)", bounds);
    else
        snprintf(text, size, " (default %s%s)", option->default_text, bounds);
}

/* Prints the words of `text` from `column` on, in lines from `indent` to COLUMNS; returns where the
 * cursor is then. */
static size_t print_words(FILE *out, const char *text, size_t indent, size_t column) {
    for (;;) {
        text += strspn(text, " ");
        size_t word = strcspn(text, " ");
        if (!word)
            return column;
        if (column > indent && column + 1 + word > COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word, text);
        column += word;
        text += word;
    }
}

static void print_option(const lh_option *option, FILE *out) {
    char remark[160];
    const char *value = lh_option_value_name(option);
    int printed = fprintf(out, "  --%s%s%s", option->name, *value ? " " : "", value);
    if (printed < 0 || printed + 2 > HELP_COLUMN)
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    else
        fprintf(out, "%*s", HELP_COLUMN - printed, "");
    render_remark(option, remark, sizeof remark);
    size_t column = print_words(out, option->help, HELP_COLUMN, HELP_COLUMN);
    print_words(out, remark, HELP_COLUMN, column);
    fputc('\n', out);
}

static void print_usage(const lh_option_table *table, FILE *out) {
    const char *usage = "usage:";
    if (!table->needs_command) {
        fprintf(out, "%s %s%s%s%s\n", usage, table->program, table->arguments ? " " : "",
                table->arguments ? table->arguments : "", table->count ? " [options]" : "");
        usage = "      ";
    }
    if (table->command_count > 0)
        fprintf(out, "%s %s COMMAND ...\n", usage, table->program);
    fputc('\n', out);
}

static void print_commands(const lh_option_table *table, FILE *out) {
    if (table->command_count == 0)
        return;
    fputs("Commands; `help COMMAND` tells more of each:\n", out);
    for (size_t i = 0; i < table->command_count; i++) {
        const lh_command *command = &table->commands[i];
        const char *arguments = command->options->arguments;
        int printed = fprintf(out, "  %s%s%s", command->name, arguments ? " " : "",
                              arguments ? arguments : "");
        if (printed < 0 || printed + 2 > HELP_COLUMN)
            fprintf(out, "\n%*s", HELP_COLUMN, "");
        else
            fprintf(out, "%*s", HELP_COLUMN - printed, "");
        print_words(out, command->summary, HELP_COLUMN, HELP_COLUMN);
        fputc('\n', out);
    }
    fputc('\n', out);
}

void lh_options_print_help(const lh_option_table *table, FILE *out) {
    print_usage(table, out);
    print_words(out, table->summary, 0, 0);
    fputs("\n\n", out);
    if (table->example)
        fprintf(out, "Example:\n  %s\n\n", table->example);
    print_commands(table, out);
    for (size_t i = 0; i < table->count; i++)
        print_option(&table->options[i], out);
    fputs(table->count ? "\n" : "", out);
    fputs("  -h, --help                  print this; --help=json: for programs\n"
          "  --version                   print the version\n\n",
          out);
    if (table->count > 0)
        print_words(
            out,
            "Values follow as \"--name VALUE\" or \"--name=VALUE\". The environment may set "
            "each as LONGHAUL_NAME, with underscores for dashes; a flag goes before it. BYTES "
            "may end in K, M, G or T.",
            0, 0);
    fputs(table->count ? "\n\n" : "", out);
    fputs("Exit status: 0 all went well, 1 it did not, 2 the command line is wrong.\n", out);
}

/* Ours have no control characters. */
static void print_string(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        assert((unsigned char)*text >= ' ');
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_member(FILE *out, const char *name, const char *text) {
    fprintf(out, ", \"%s\": ", name);
    if (text)
        print_string(out, text);
    else
        fputs("null", out);
}

static void print_option_json(const lh_option *option, FILE *out) {
    static const char *const kinds[] = {[LH_OPTION_TEXT] = "text",
                                        [LH_OPTION_NUMBER] = "number",
                                        [LH_OPTION_BYTES] = "bytes",
                                        [LH_OPTION_CHOICE] = "choice",
                                        [LH_OPTION_FLAG] = "flag"};
    char bound[LH_OPTION_BOUND_BYTES];
    bool is_flag = option->kind == LH_OPTION_FLAG;
    fputs("{\"name\": ", out);
    print_string(out, option->name);
    print_member(out, "kind", kinds[option->kind]);
    print_member(out, "value", lh_option_value_name(option));
    print_member(out, "default", is_flag && !option->default_text ? "0" : option->default_text);
    print_member(out, "help", option->help);
    if (option->minimum || option->maximum) {
        lh_option_render_bound(option, option->minimum, bound);
        print_member(out, "minimum", bound);
        lh_option_render_bound(option, option->maximum, bound);
        print_member(out, "maximum", option->maximum == INT64_MAX ? NULL : bound);
    }
    fputc('}', out);
}

static void print_table_json(const lh_option_table *table, FILE *out);

static void print_command_json(const lh_command *command, FILE *out) {
    fputs("{\"name\": ", out);
    print_string(out, command->name);
    print_member(out, "summary", command->summary);
    fputs(", \"itself\": ", out);
    print_table_json(command->options, out);
    fputc('}', out);
}

static void print_table_json(const lh_option_table *table, FILE *out) {
    fputs("{\"program\": ", out);
    print_string(out, table->program);
    print_member(out, "version", LONGHAUL_VERSION);
    print_member(out, "arguments", table->arguments ? table->arguments : "");
    print_member(out, "summary", table->summary);
    print_member(out, "example", table->example ? table->example : "");
    fputs(", \"options\": [", out);
    for (size_t i = 0; i < table->count; i++) {
        fputs(i ? ",\n " : "\n ", out);
        print_option_json(&table->options[i], out);
    }
    fputs("],\n \"commands\": [", out);
    for (size_t i = 0; i < table->command_count; i++) {
        fputs(i ? ",\n " : "\n ", out);
        print_command_json(&table->commands[i], out);
    }
    fputs("]}", out);
}

void lh_options_print_json(const lh_option_table *table, FILE *out) {
    print_table_json(table, out);
    fputc('\n', out);
}
