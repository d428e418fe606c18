/* Lines of text. */
#include "common/config/config_problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 512

/* As one line ends and the next begins. */
static void make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

static void append(lh_config_problems *problems, const char *text) {
    /* Lost where there is no memory: the count tells that there was one. */
    (void)lh_text_buffer_append(&problems->lines, text, strlen(text), NULL);
}

void lh_config_problems_add(lh_config_problems *problems, uint32_t line, const char *format, ...) {
    char place[32] = "", text[LINE_BYTES];
    va_list list;
    if (problems->count++ >= LH_CONFIG_PROBLEMS_TOLD)
        return;
    if (line)
        snprintf(place, sizeof place, ":%u", line);
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    make_printable(text);
    append(problems, problems->path);
    append(problems, place);
    append(problems, ": ");
    append(problems, text);
    append(problems, "\n");
}

void lh_config_problems_reset(lh_config_problems *problems) {
    lh_text_buffer_reset(&problems->lines);
    problems->count = 0;
}
