/* Grammars in the notation of llama.cpp (GBNF): rules `name ::= ...`, the first text of "root";
 * "literals" and [classes] with \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH, `.` (any character),
 * groups, alternation, * + ? {m} {m,} {m,n} {,n} behind an item, comments from # to the line's end.
 * Inside parentheses and around | a line may end. */
#pragma once

#include "gateway/constrain/grammar.h"

#include <stddef.h>

/* Parentheses inside one another. */
#define LH_GBNF_DEPTH_MAX 100

/* Adds the rules of text[length], UTF-8, and sets the grammar's root. What cannot be read is a
 * failure of the grammar (which sticks): LH_ERR_INVALID with the line; LH_ERR_LIMIT. */
void lh_gbnf_add(lh_grammar *grammar, const char *text, size_t length);
