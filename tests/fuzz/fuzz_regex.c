/* A regular expression of any bytes, whole, searched for, and inside JSON: it is read or refused,
 * compiled or refused, and where it is compiled a text of the same bytes is read. */
#include "gateway/constrain/regex.h"
#include "tests/gateway/support/constraint_probe.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_text(lh_constraint *constraint, const uint8_t *data, size_t size) {
    lh_constraint_state *state;
    const lh_mask *mask;
    uint32_t forced[16], count;
    if (lh_constraint_state_create(constraint, &state, NULL))
        return;
    for (size_t i = 0; i < size && i < 64; i++) {
        (void)lh_constraint_state_mask(state, &mask, NULL);
        (void)lh_constraint_state_forced(state, forced, 16, &count, NULL);
        if (lh_constraint_state_take(state, data[i], NULL))
            break;
    }
    lh_constraint_state_destroy(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static probe_vocabulary vocabulary;
    if (!vocabulary.tokenizer) {
        small_vocabulary file = small_vocabulary_rich();
        vocabulary = probe_vocabulary_of(&file);
    }
    if (size == 0)
        return 0;
    lh_grammar *grammar;
    lh_constraint *constraint;
    if (lh_grammar_create(&grammar, NULL))
        return 0;
    lh_regex_options options = {.is_search = data[0] & 1, .is_json_text = data[0] & 2};
    lh_grammar_node node = lh_regex_add(grammar, (const char *)data + 1, size - 1, options);
    if (node != LH_GRAMMAR_FAILED)
        lh_grammar_set_root(grammar, node);
    if (lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, NULL) == LH_OK) {
        read_text(constraint, data + 1, size - 1);
        lh_constraint_release(constraint);
    }
    lh_grammar_destroy(grammar);
    return 0;
}
