/* Averages over what requests were like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/cost/request_mix.h"

static void the_first_ones_count_alike(void **state) {
    (void)state;
    lh_request_mix mix = {0};
    lh_request_mix_note(&mix, 100, 10, 1);
    assert_true(mix.prompt_tokens == 100 && mix.answer_tokens == 10 && mix.sequences == 1);
    lh_request_mix_note(&mix, 300, 0, 4);
    assert_true(mix.prompt_tokens == 200 && mix.answer_tokens == 5 && mix.sequences == 2.5);
    assert_int_equal(mix.count, 2);
}

/* After a few hundred others, what was before is forgotten but for a few per cent. */
static void old_ones_are_forgotten(void **state) {
    (void)state;
    lh_request_mix mix = {0};
    for (int i = 0; i < 1000; i++)
        lh_request_mix_note(&mix, 1000, 1000, 10);
    for (int i = 0; i < 64; i++)
        lh_request_mix_note(&mix, 0, 0, 0);
    assert_true(mix.prompt_tokens > 300 && mix.prompt_tokens < 400);
    for (int i = 0; i < 192; i++)
        lh_request_mix_note(&mix, 0, 0, 0);
    assert_true(mix.prompt_tokens < 25 && mix.sequences < 0.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_ones_count_alike),
        cmocka_unit_test(old_ones_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
