/* --help: flags on the left, meaning on the right, words wrapped; --help=markdown: the same as a
 * table. */
#include "common/base/options_help.h"

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

void lh_options_print_help(const lh_option_table *table, FILE *out) {
    fprintf(out, "usage: %s [options]\n\n", table->program);
    print_words(out, table->summary, 0, 0);
    fputs("\n\n", out);
    for (size_t i = 0; i < table->count; i++)
        print_option(&table->options[i], out);
    fputs("\n  --help                      print this; --help=markdown: as a table\n"
          "  --version                   print the version\n\n",
          out);
    print_words(out,
                "Values follow as \"--name VALUE\" or \"--name=VALUE\". The environment may set "
                "each as LONGHAUL_NAME, with underscores for dashes; a flag goes before it. BYTES "
                "may end in K, M, G or T.",
                0, 0);
    fputc('\n', out);
}

/* A vertical bar would end the cell. */
static void print_cell(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

void lh_options_print_markdown(const lh_option_table *table, FILE *out) {
    fputs("| Flag | Meaning |\n| --- | --- |\n", out);
    for (size_t i = 0; i < table->count; i++) {
        const lh_option *option = &table->options[i];
        char remark[160];
        const char *value = lh_option_value_name(option);
        fprintf(out, "| `--%s%s", option->name, *value ? " " : "");
        print_cell(out, value);
        fputs("` | ", out);
        print_cell(out, option->help);
        render_remark(option, remark, sizeof remark);
        print_cell(out, remark);
        fputs(" |\n", out);
    }
}
