/* What the parsers of written grammars share: a place in the text, and nodes that are collected for
 * a sequence or a choice. A failure is the grammar's (lh_grammar_check); after one nothing is
 * added. Thread: one at a time. */
#pragma once

#include "gateway/constrain/grammar.h"

/* No answer is as long as so many repetitions. */
#define LH_GRAMMAR_COUNT_MAX 10000000u

typedef struct lh_grammar_reader {
    lh_grammar *grammar;
    const char *text, *at, *end; /* UTF-8 */
} lh_grammar_reader;

/* Starts as {0}. Its nodes are malloc'd; _sequence and _choice release them. */
typedef struct lh_grammar_nodes {
    lh_grammar_node *nodes;
    size_t count, capacity;
} lh_grammar_nodes;

bool lh_grammar_reader_has_failed(const lh_grammar_reader *reader);
/* Fails the grammar, unless it has failed already; the message names the line. */
void lh_grammar_reader_fail(lh_grammar_reader *reader, lh_status status, const char *what);
void lh_grammar_reader_fail_memory(lh_grammar_reader *reader);

/* Whether the text goes on with `wanted`; _accept then moves behind it. */
bool lh_grammar_reader_next_is(const lh_grammar_reader *reader, const char *wanted);
bool lh_grammar_reader_accept(lh_grammar_reader *reader, const char *wanted);
/* A character's code in so many hexadecimal digits. 0: it has failed. */
uint32_t lh_grammar_reader_hex(lh_grammar_reader *reader, size_t digits);
/* Reads decimal digits. False: there are none, and *value is 0. A number that is above
 * LH_GRAMMAR_COUNT_MAX stays above it. */
bool lh_grammar_reader_digits(lh_grammar_reader *reader, uint64_t *value);

void lh_grammar_reader_push(lh_grammar_reader *reader, lh_grammar_nodes *list,
                            lh_grammar_node node);
/* The collected nodes in their order, or one of them; LH_GRAMMAR_FAILED. */
lh_grammar_node lh_grammar_reader_sequence(lh_grammar_reader *reader, lh_grammar_nodes *list);
lh_grammar_node lh_grammar_reader_choice(lh_grammar_reader *reader, lh_grammar_nodes *list);
