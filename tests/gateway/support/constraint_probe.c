#include "tests/gateway/support/constraint_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(lh_status status, const lh_error *error) {
    if (status) {
        fprintf(stderr, "%s: %s\n", lh_status_name(status), error->message);
        abort();
    }
}

probe_vocabulary probe_vocabulary_of(const small_vocabulary *file) {
    probe_vocabulary probe;
    lh_error error;
    small_gguf opened = small_vocabulary_open(file);
    check(lh_tokenizer_create(opened.gguf, &probe.tokenizer, &error), &error);
    small_gguf_close(&opened);
    check(lh_constraint_vocabulary_create(probe.tokenizer, &probe.vocabulary, &error), &error);
    return probe;
}

void probe_vocabulary_reset(probe_vocabulary *probe) {
    lh_constraint_vocabulary_release(probe->vocabulary);
    lh_tokenizer_destroy(probe->tokenizer);
}

lh_constraint *probe_constraint(lh_grammar *grammar, const lh_constraint_vocabulary *vocabulary) {
    lh_constraint *constraint;
    lh_error error;
    check(lh_constraint_create(grammar, vocabulary, &constraint, &error), &error);
    lh_grammar_destroy(grammar);
    return constraint;
}

bool probe_take_text(lh_constraint_state *state, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        lh_error error;
        lh_status status = lh_constraint_state_take(state, (uint8_t)text[i], &error);
        if (status == LH_ERR_INVALID)
            return false;
        check(status, &error);
    }
    return true;
}

bool probe_matches(lh_constraint *constraint, const char *text, size_t length) {
    lh_constraint_state *state;
    lh_error error;
    check(lh_constraint_state_create(constraint, &state, &error), &error);
    bool matches = probe_take_text(state, text, length) && lh_constraint_state_may_end(state);
    lh_constraint_state_destroy(state);
    return matches;
}

bool probe_allows(lh_constraint_state *state, uint32_t token) {
    const lh_mask *mask;
    lh_error error;
    check(lh_constraint_state_mask(state, &mask, &error), &error);
    return mask->words[token / 64] >> token % 64 & 1;
}

void probe_check_mask(lh_constraint_state *state, const lh_tokenizer *tokenizer) {
    const lh_mask *mask;
    lh_error error;
    lh_status status = lh_constraint_state_mask(state, &mask, &error);
    uint32_t allowed = 0;
    if (status == LH_ERR_LIMIT)
        mask = NULL; /* no token fits */
    else
        check(status, &error);
    for (uint32_t token = 0; token < lh_tokenizer_vocabulary(tokenizer); token++) {
        lh_constraint_state *copy;
        check(lh_constraint_state_copy(state, &copy, &error), &error);
        status = lh_constraint_state_take(copy, token, &error);
        bool in_mask = mask && mask->words[token / 64] >> token % 64 & 1;
        if (status != LH_ERR_INVALID)
            check(status, &error);
        if ((status == LH_OK) != in_mask) {
            fprintf(stderr, "token %u: %s, in the mask: %d\n", token, lh_status_name(status),
                    in_mask);
            abort();
        }
        allowed += in_mask;
        lh_constraint_state_destroy(copy);
    }
    if (mask &&
        (mask->allowed != allowed || mask->vocabulary != lh_tokenizer_vocabulary(tokenizer)))
        abort();
}
