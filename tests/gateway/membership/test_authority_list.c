/* One CA follows another. */
#include "gateway/membership/authority_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char a[] = "aaaaaaaaaaaaaaaa", b[] = "bbbbbbbbbbbbbbbb", c[] = "cccccccccccccccc";

static void a_ca_is_next_then_signs_then_leaves(void **state) {
    (void)state;
    lh_authority_list list;
    lh_authority_list_begin(&list, a, 10);
    assert_null(lh_authority_list_next(&list));
    assert_int_equal(lh_authority_list_add_next(&list, b, 20, 90, NULL), LH_OK);
    assert_string_equal(lh_authority_list_signing(&list)->id, a);
    assert_string_equal(lh_authority_list_next(&list)->id, b);
    assert_int_equal(lh_authority_list_next(&list)->until_s, 90);
    assert_int_equal(lh_authority_list_add_next(&list, c, 30, 90, NULL), LH_ERR_BUSY);
    lh_authority_list_promote(&list, 40);
    assert_string_equal(lh_authority_list_signing(&list)->id, b);
    assert_null(lh_authority_list_next(&list));
    assert_string_equal(list.entries[1].id, a);
    assert_int_equal(list.entries[1].state, LH_AUTHORITY_LEAVING);
    assert_int_equal(list.entries[1].since_s, 40);
    lh_authority_list_remove(&list, b); /* it signs */
    assert_int_equal(list.count, 2);
    lh_authority_list_remove(&list, a);
    assert_int_equal(list.count, 1);
    assert_false(lh_authority_list_has(&list, a));
    assert_true(lh_authority_list_has(&list, b));
}

static void there_are_only_so_many(void **state) {
    (void)state;
    lh_authority_list list;
    char id[LH_AUTHORITY_ID_BYTES];
    memcpy(id, a, sizeof id);
    lh_authority_list_begin(&list, id, 0);
    for (size_t i = 1; i < LH_AUTHORITIES_MAX; i++) {
        id[0]++;
        assert_int_equal(lh_authority_list_add_next(&list, id, 0, 1, NULL), LH_OK);
        lh_authority_list_promote(&list, 1);
        assert_true(lh_authority_list_is_valid(&list));
    }
    id[0]++;
    assert_int_equal(lh_authority_list_add_next(&list, id, 0, 1, NULL), LH_ERR_LIMIT);
}

static void tells_lists_that_cannot_be(void **state) {
    (void)state;
    lh_authority_list list = {.count = 0};
    assert_false(lh_authority_list_is_valid(&list));
    list = (lh_authority_list){.count = 1, .entries = {{.state = LH_AUTHORITY_NEXT}}};
    assert_false(lh_authority_list_is_valid(&list));
    list = (lh_authority_list){.count = 2, .entries = {{.state = 0}, {.state = 0}}};
    assert_false(lh_authority_list_is_valid(&list));
    list = (lh_authority_list){.count = 3,
                               .entries = {{.state = LH_AUTHORITY_SIGNING},
                                           {.state = LH_AUTHORITY_LEAVING},
                                           {.state = LH_AUTHORITY_NEXT}}};
    assert_false(lh_authority_list_is_valid(&list));
    list.count = LH_AUTHORITIES_MAX + 1;
    assert_false(lh_authority_list_is_valid(&list));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ca_is_next_then_signs_then_leaves),
        cmocka_unit_test(there_are_only_so_many),
        cmocka_unit_test(tells_lists_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
