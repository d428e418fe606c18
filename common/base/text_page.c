/* Columns are bytes: what comes here is ASCII. */
#include "common/base/text_page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void append(lh_text_page *page, const char *text, size_t length) {
    if (page->status == LH_OK)
        page->status = lh_text_buffer_append(page->out, text, length, NULL);
}

static void put(lh_text_page *page, const char *text, size_t length) {
    append(page, text, length);
    page->column += (unsigned)length;
}

void lh_text_page_put(lh_text_page *page, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(page, text, strlen(text));
}

void lh_text_page_put_cell(lh_text_page *page, unsigned columns, const char *text) {
    unsigned end = page->column + columns;
    size_t length = strlen(text);
    put(page, text, length < columns ? length : columns);
    lh_text_page_move(page, end);
}

void lh_text_page_put_words(lh_text_page *page, unsigned indent, const char *text) {
    while (*text) {
        size_t length = strcspn(text, " ");
        bool is_first = page->column <= indent;
        if (!is_first && page->column + 1 + length > page->width) {
            lh_text_page_break(page);
            lh_text_page_move(page, indent);
        } else if (!is_first) {
            put(page, " ", 1);
        }
        put(page, text, length);
        text += length + strspn(text + length, " ");
    }
}

void lh_text_page_move(lh_text_page *page, unsigned column) {
    while (page->column < column)
        put(page, " ", 1);
}

void lh_text_page_break(lh_text_page *page) {
    append(page, "\n", 1);
    page->column = 0;
}

void lh_text_page_colour(lh_text_page *page, const char *sequence) {
    if (page->has_colours)
        append(page, sequence, strlen(sequence));
}
