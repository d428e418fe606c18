/* Who has what of a stage: everything once, in whole blocks, by the weights. */
#include "worker/compute/stage/division.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static lh_error error;

/* An 8B's shapes. */
static const lh_model_config large = {.layers = 32,
                                      .width = 4096,
                                      .feed_forward_width = 14336,
                                      .heads = 32,
                                      .kv_heads = 8,
                                      .head_dim = 128,
                                      .vocabulary = 128256};

static lh_division divide(const lh_model_config *config, const lh_membership *membership) {
    lh_division division;
    if (lh_division_make(config, membership, &division, &error) != LH_OK)
        fail_msg("%s", error.message);
    return division;
}

static void check_spans(const lh_division_spans *spans, uint32_t members, uint32_t count,
                        uint32_t unit) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < members; i++) {
        assert_int_equal(spans->of[i].begin, end);
        assert_true(spans->of[i].end > end);
        end = spans->of[i].end;
        assert_true(end % unit == 0 || end == count);
    }
    assert_int_equal(end, count);
}

static void check_division(const lh_model_config *c, const lh_membership *membership,
                           uint32_t head_unit) {
    const lh_division d = divide(c, membership);
    check_spans(&d.heads, d.members, c->heads, head_unit);
    check_spans(&d.attended, d.members, c->heads * c->head_dim, LH_SPAN_COLUMNS);
    check_spans(&d.gated, d.members, c->feed_forward_width, LH_SPAN_COLUMNS);
    check_spans(&d.columns, d.members, c->width, LH_SPAN_COLUMNS);
    check_spans(&d.tokens, d.members, c->vocabulary, LH_SPAN_COLUMNS);
    for (uint32_t i = 0; i < d.members; i++) {
        const lh_span heads = d.heads.of[i], kv = d.kv_heads.of[i];
        assert_true(kv.begin * d.group <= heads.begin && (kv.begin + 1) * d.group > heads.begin);
        assert_true(kv.end * d.group >= heads.end && (kv.end - 1) * d.group < heads.end);
        assert_int_equal(d.kept.of[i].begin, kv.begin * c->head_dim);
        assert_int_equal(d.kept.of[i].end, kv.end * c->head_dim);
    }
}

static void test_everything_is_with_one_member(void **state) {
    (void)state;
    lh_model_config odd = large;
    odd.width = 576;
    odd.feed_forward_width = 1536;
    odd.heads = 18;
    odd.kv_heads = 6;
    odd.head_dim = 80; /* two heads are whole blocks */
    odd.vocabulary = 49153;
    for (uint32_t members = 2; members <= LH_MEMBERS_MAX; members++) {
        check_division(&large, &(lh_membership){members, 0, {0}}, 1);
        check_division(&large, &(lh_membership){members, 1, {9, 1, 30, 4, 1, 0, 7, 100}}, 1);
        check_division(&odd, &(lh_membership){members, 0, {0}}, 2);
        check_division(&odd, &(lh_membership){members, 1, {1, 4000000000u, 7, 3}}, 2);
    }
}

static void test_by_weights(void **state) {
    (void)state;
    const lh_division d = divide(&large, &(lh_membership){3, 2, {4, 2, 2}});
    assert_int_equal(d.heads.of[0].end, 16);
    assert_int_equal(d.heads.of[1].end, 24);
    assert_int_equal(d.gated.of[0].end, 7168);
    assert_int_equal(d.columns.of[1].end, 3072);
    const lh_model_config own = lh_division_config(&d, &large);
    assert_int_equal(own.heads, 8);
    assert_int_equal(own.kv_heads, 2);
    assert_int_equal(own.feed_forward_width, 3584);
    assert_int_equal(own.width, large.width);
    lh_tensor_part part = {LH_TENSOR_ATTN_K, 100, 1024};
    lh_division_cut(&d, part.role, &part);
    assert_int_equal(part.first, 100 + 6 * 128);
    assert_int_equal(part.count, 2 * 128);
    part = (lh_tensor_part){LH_TENSOR_ATTN_NORM, 0, 4096};
    lh_division_cut(&d, part.role, &part);
    assert_int_equal(part.count, 4096);
}

static void test_alone_it_has_everything(void **state) {
    (void)state;
    for (uint32_t members = 0; members < 2; members++) {
        const lh_division d = divide(&large, &(lh_membership){.members = members});
        const lh_model_config own = lh_division_config(&d, &large);
        assert_memory_equal(&own, &large, sizeof own);
        assert_int_equal(d.columns.of[0].end, 4096);
    }
}

static void check_refused(const lh_model_config *config, const lh_membership *membership,
                          lh_status status, const char *words) {
    lh_division division;
    assert_int_equal(lh_division_make(config, membership, &division, &error), status);
    assert_non_null(strstr(error.message, words));
}

static void test_what_cannot_be(void **state) {
    (void)state;
    lh_model_config narrow = large;
    narrow.width = 96;
    check_refused(&narrow, &(lh_membership){4, 0, {0}}, LH_ERR_LIMIT,
                  "has 96 columns, and they can be divided in 3");
    check_refused(&large, &(lh_membership){2, 2, {0}}, LH_ERR_INVALID, "2 members has no number 2");
    check_refused(&large, &(lh_membership){0, 1, {0}}, LH_ERR_INVALID, "no number 1");
    check_refused(&large, &(lh_membership){LH_MEMBERS_MAX + 1, 0, {0}}, LH_ERR_INVALID, "up to 8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_with_one_member),
        cmocka_unit_test(test_by_weights),
        cmocka_unit_test(test_alone_it_has_everything),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
