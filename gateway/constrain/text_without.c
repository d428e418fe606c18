/* A product of automata, one for each text that must not come. */
#include "gateway/constrain/text_without.h"

#include "gateway/constrain/dfa_rules.h"
#include "gateway/constrain/text_product.h"

#include <assert.h>

/* Texts in which none of the parts, which are what has a trigger, is found. */
static uint32_t none_of_parts(const void *context, uint32_t parts) {
    (void)context;
    return parts == 0;
}

static lh_status build_free_text(lh_grammar *scratch, const lh_literal_text *texts, size_t count,
                                 size_t *work, lh_dfa *dfa, lh_error *error) {
    lh_grammar_node parts[LH_TEXT_WITHOUT_MAX];
    assert(count <= LH_TEXT_WITHOUT_MAX);
    lh_grammar_node any = lh_grammar_repeat(scratch, lh_grammar_class(scratch, NULL, 0, true), 0,
                                            LH_GRAMMAR_UNBOUNDED);
    for (size_t i = 0; i < count; i++) {
        const lh_grammar_node nodes[] = {
            any, lh_grammar_literal(scratch, texts[i].bytes, texts[i].length), any};
        parts[i] = lh_grammar_sequence(scratch, nodes, 3);
    }
    return lh_text_product_build(scratch, parts, count, none_of_parts, NULL, work, dfa, error);
}

lh_grammar_node lh_text_without_add(lh_grammar *grammar, const lh_literal_text *texts,
                                    size_t count) {
    lh_grammar *scratch;
    lh_grammar_node node = LH_GRAMMAR_FAILED;
    lh_dfa dfa = {0};
    lh_error cause;
    if (lh_grammar_create(&scratch, &cause))
        return lh_grammar_fail(grammar, cause.status, "%s", cause.message);
    if (build_free_text(scratch, texts, count, lh_grammar_work(grammar), &dfa, &cause))
        lh_grammar_fail(grammar, cause.status, "the text without what ends it %s", cause.message);
    else
        node = lh_dfa_rules_add(grammar, &dfa, 1, false);
    lh_dfa_reset(&dfa);
    lh_grammar_destroy(scratch);
    return node;
}
