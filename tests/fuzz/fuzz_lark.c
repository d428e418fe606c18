/* A grammar in the notation of Lark, of any bytes: it is read or refused, compiled or refused, and
 * where it is compiled a text of the same bytes is read. */
#include "gateway/constrain/lark.h"
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
    lh_grammar *grammar;
    lh_constraint *constraint;
    if (lh_grammar_create(&grammar, NULL))
        return 0;
    lh_grammar_set_root(grammar, lh_lark_add(grammar, (const char *)data, size, size % 2 == 0));
    if (lh_constraint_create(grammar, vocabulary.vocabulary, &constraint, NULL) == LH_OK) {
        read_text(constraint, data, size);
        lh_constraint_release(constraint);
    }
    lh_grammar_destroy(grammar);
    return 0;
}
