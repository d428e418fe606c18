/* A cursor over the text, and a growing list. */
#include "gateway/constrain/grammar_reader.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

#define CODE_POINT_MAX 0x10FFFFu

bool lh_grammar_reader_has_failed(const lh_grammar_reader *reader) {
    return lh_grammar_check(reader->grammar, NULL) != LH_OK;
}

void lh_grammar_reader_fail(lh_grammar_reader *reader, lh_status status, const char *what) {
    size_t line = 1;
    if (lh_grammar_reader_has_failed(reader))
        return;
    for (const char *at = reader->text; at < reader->at && at < reader->end; at++)
        line += *at == '\n';
    lh_grammar_fail(reader->grammar, status, "the grammar, line %zu: %s", line, what);
}

void lh_grammar_reader_fail_memory(lh_grammar_reader *reader) {
    lh_grammar_fail(reader->grammar, LH_ERR_NO_MEMORY, "no memory for a grammar");
}

/* ---- Text ---- */

bool lh_grammar_reader_next_is(const lh_grammar_reader *reader, const char *wanted) {
    size_t length = strlen(wanted);
    return (size_t)(reader->end - reader->at) >= length && memcmp(reader->at, wanted, length) == 0;
}

bool lh_grammar_reader_accept(lh_grammar_reader *reader, const char *wanted) {
    bool is = lh_grammar_reader_next_is(reader, wanted);
    reader->at += is ? strlen(wanted) : 0;
    return is;
}

uint32_t lh_grammar_reader_hex(lh_grammar_reader *reader, size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++, reader->at++) {
        char digit = reader->at < reader->end ? *reader->at : ' ', lower = (char)(digit | 0x20);
        bool is_letter = lower >= 'a' && lower <= 'f';
        if (!is_letter && (digit < '0' || digit > '9')) {
            lh_grammar_reader_fail(reader, LH_ERR_INVALID, "a hexadecimal digit is missing");
            return 0;
        }
        value = value * 16 + (uint32_t)(is_letter ? lower - 'a' + 10 : digit - '0');
    }
    if (value <= CODE_POINT_MAX && (value < 0xD800 || value > 0xDFFF))
        return value;
    lh_grammar_reader_fail(reader, LH_ERR_INVALID, "there is no such character");
    return 0;
}

bool lh_grammar_reader_digits(lh_grammar_reader *reader, uint64_t *value) {
    const char *begin = reader->at;
    *value = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++)
        if (*value <= LH_GRAMMAR_COUNT_MAX)
            *value = *value * 10 + (uint64_t)(*reader->at - '0');
    return reader->at > begin;
}

/* ---- Nodes ---- */

void lh_grammar_reader_push(lh_grammar_reader *reader, lh_grammar_nodes *list,
                            lh_grammar_node node) {
    if (lh_grammar_reader_has_failed(reader))
        return;
    if (!lh_growing_array_reserve(&list->nodes, &list->capacity, list->count + 1,
                                  sizeof *list->nodes))
        lh_grammar_reader_fail_memory(reader);
    else
        list->nodes[list->count++] = node;
}

static lh_grammar_node collect(lh_grammar_reader *reader, lh_grammar_nodes *list,
                               lh_grammar_node (*of)(lh_grammar *grammar,
                                                     const lh_grammar_node *nodes, size_t count)) {
    lh_grammar_node node = lh_grammar_reader_has_failed(reader)
                               ? LH_GRAMMAR_FAILED
                               : of(reader->grammar, list->nodes, list->count);
    free(list->nodes);
    *list = (lh_grammar_nodes){0};
    return node;
}

lh_grammar_node lh_grammar_reader_sequence(lh_grammar_reader *reader, lh_grammar_nodes *list) {
    return collect(reader, list, lh_grammar_sequence);
}

lh_grammar_node lh_grammar_reader_choice(lh_grammar_reader *reader, lh_grammar_nodes *list) {
    return collect(reader, list, lh_grammar_choice);
}
