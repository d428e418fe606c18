/* Whose certificates are good. */
#include "gateway/membership/member_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lh_member make(const char *name, int number, int64_t expires_s) {
    lh_member member = {.issued_s = number, .expires_s = expires_s};
    snprintf(member.name, sizeof member.name, "%s", name);
    snprintf(member.serial, sizeof member.serial, "%032d", number);
    snprintf(member.authority, sizeof member.authority, "%016d", number % 2);
    member.key_sha256[0] = (uint8_t)number;
    return member;
}

static void add(lh_member_list *list, const char *name, int number, int64_t expires_s) {
    lh_member member = make(name, number, expires_s);
    assert_int_equal(lh_member_list_add(list, &member, NULL), LH_OK);
}

static void a_name_belongs_to_the_keys_that_have_it(void **state) {
    (void)state;
    lh_member_list list = {0};
    const uint8_t mine[LH_SHA256_BYTES] = {1}, other[LH_SHA256_BYTES] = {2};
    add(&list, "attic", 1, 100);
    assert_false(lh_member_list_has_taken(&list, "attic", mine, 50));
    assert_true(lh_member_list_has_taken(&list, "attic", other, 99));
    assert_false(lh_member_list_has_taken(&list, "attic", other, 100));
    assert_false(lh_member_list_has_taken(&list, "cellar", other, 50));
    assert_int_equal(lh_member_list_revoke(&list, "attic", 50), 1);
    assert_int_equal(lh_member_list_revoke(&list, "attic", 50), 0);
    assert_false(lh_member_list_has_taken(&list, "attic", other, 50));
    lh_member_list_reset(&list);
}

static void of_each_name_the_youngest_are_kept(void **state) {
    (void)state;
    lh_member_list list = {0};
    add(&list, "other", 0, 1000);
    for (int i = 1; i <= 20; i++)
        add(&list, "attic", i, 1000);
    assert_int_equal(list.count, LH_MEMBER_CERTIFICATES_MAX + 1);
    assert_int_equal(lh_member_list_find(&list, "attic")->issued_s, 20);
    assert_int_equal(list.members[1].issued_s, 20 - (int)LH_MEMBER_CERTIFICATES_MAX + 1);
    assert_non_null(lh_member_list_find(&list, "other"));
    assert_null(lh_member_list_find(&list, "nobody"));
    assert_int_equal(lh_member_list_revoke(&list, "attic", 1), LH_MEMBER_CERTIFICATES_MAX);
    lh_member_list_reset(&list);
}

static void those_that_have_ended_are_dropped(void **state) {
    (void)state;
    lh_member_list list = {0};
    add(&list, "attic", 1, 10);
    add(&list, "attic", 2, 20);
    add(&list, "cellar", 3, 15);
    lh_member_list_prune(&list, 15);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.members[0].issued_s, 2);
    lh_member_list_reset(&list);
}

/* An older certificate of another CA is in nobody's way: its owner has a younger one. */
static void a_ca_is_depended_on_by_the_youngest_certificates(void **state) {
    (void)state;
    lh_member_list list = {0};
    static const char even[] = "0000000000000000", odd[] = "0000000000000001";
    add(&list, "attic", 1, 100);
    assert_true(lh_member_list_depends_on(&list, odd, 50));
    assert_false(lh_member_list_depends_on(&list, odd, 100));
    add(&list, "attic", 2, 100);
    assert_false(lh_member_list_depends_on(&list, odd, 50));
    assert_true(lh_member_list_depends_on(&list, even, 50));
    add(&list, "cellar", 3, 100);
    assert_true(lh_member_list_depends_on(&list, odd, 50));
    lh_member_list_revoke(&list, "cellar", 50);
    assert_false(lh_member_list_depends_on(&list, odd, 50));
    lh_member_list_reset(&list);
}

static void the_list_has_a_limit(void **state) {
    (void)state;
    lh_member_list list = {0};
    for (unsigned i = 0; i < LH_MEMBERS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        add(&list, name, (int)i, 100);
    }
    lh_member member = make("one-more", 1, 100);
    assert_int_equal(lh_member_list_add(&list, &member, NULL), LH_ERR_LIMIT);
    lh_member_list_reset(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_belongs_to_the_keys_that_have_it),
        cmocka_unit_test(of_each_name_the_youngest_are_kept),
        cmocka_unit_test(those_that_have_ended_are_dropped),
        cmocka_unit_test(a_ca_is_depended_on_by_the_youngest_certificates),
        cmocka_unit_test(the_list_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
