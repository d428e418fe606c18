/* constraint_match: what regular expressions and GBNF grammars match, for tests in Python. Reads
 * lines: "r HEX" or "g HEX" begins an expression or a grammar, "t HEX" asks for a text. Answers
 * each: "ok" or "refused MESSAGE"; "1" or "0". */
#include "gateway/constrain/gbnf.h"
#include "gateway/constrain/regex.h"
#include "tests/gateway/support/constraint_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Decodes hexadecimal digits in their place. */
static size_t decode(char *text) {
    size_t length = strspn(text, "0123456789abcdef") / 2;
    for (size_t i = 0; i < length; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        text[i] = (char)strtoul(digits, NULL, 16);
    }
    return length;
}

static lh_constraint *compile(char kind, const char *text, size_t length,
                              const lh_constraint_vocabulary *vocabulary) {
    lh_grammar *grammar;
    lh_constraint *constraint = NULL;
    lh_error error = {0};
    if (lh_grammar_create(&grammar, &error))
        abort();
    if (kind == 'g')
        lh_gbnf_add(grammar, text, length);
    else {
        lh_grammar_node node = lh_regex_add(grammar, text, length, (lh_regex_options){0});
        if (node != LH_GRAMMAR_FAILED)
            lh_grammar_set_root(grammar, node);
    }
    if (lh_constraint_create(grammar, vocabulary, &constraint, &error))
        printf("refused %s\n", error.message);
    else
        printf("ok\n");
    lh_grammar_destroy(grammar);
    return constraint;
}

int main(void) {
    small_vocabulary file = small_vocabulary_rich();
    probe_vocabulary vocabulary = probe_vocabulary_of(&file);
    lh_constraint *constraint = NULL;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 2) {
        size_t length = decode(line + 2);
        if (line[0] != 't') {
            lh_constraint_release(constraint);
            constraint = compile(line[0], line + 2, length, vocabulary.vocabulary);
        } else
            printf("%d\n", constraint && probe_matches(constraint, line + 2, length));
    }
    free(line);
    lh_constraint_release(constraint);
    probe_vocabulary_reset(&vocabulary);
    return 0;
}
