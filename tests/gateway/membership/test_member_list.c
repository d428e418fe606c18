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
    assert_int_equal(lh_member_list_append(list, &member, NULL), LH_OK);
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

static lh_authority_list both_authorities(void) {
    lh_authority_list list;
    lh_authority_list_begin(&list, "0000000000000000", 1);
    assert_int_equal(lh_authority_list_add_next(&list, "0000000000000001", 1, 2, NULL), LH_OK);
    return list;
}

static lh_status issue(lh_member_list *list, const lh_authority_list *believed, int number,
                       int64_t expires_s, int64_t now_s) {
    lh_member member = make("attic", number, expires_s);
    return lh_member_list_add(list, &member, believed, now_s, NULL);
}

static void what_is_in_force_makes_no_room(void **state) {
    (void)state;
    lh_member_list list = {0};
    const lh_authority_list believed = both_authorities();
    add(&list, "other", 0, 1000);
    for (int i = 1; i <= (int)LH_MEMBER_CERTIFICATES_MAX; i++)
        assert_int_equal(issue(&list, &believed, i, i == 3 ? 100 : 1000, 50), LH_OK);
    assert_int_equal(lh_member_list_count(&list, "attic", &believed, 50),
                     LH_MEMBER_CERTIFICATES_MAX);
    assert_int_equal(issue(&list, &believed, 20, 1000, 99), LH_ERR_LIMIT);
    assert_int_equal(issue(&list, &believed, 21, 1000, 100), LH_OK); /* the third has ended */
    assert_int_equal(list.count, LH_MEMBER_CERTIFICATES_MAX + 1);
    assert_int_equal(list.members[3].issued_s, 4);
    assert_int_equal(lh_member_list_find(&list, "attic")->issued_s, 21);
    assert_non_null(lh_member_list_find(&list, "other"));
    assert_null(lh_member_list_find(&list, "nobody"));
    assert_int_equal(lh_member_list_revoke(&list, "attic", 1), LH_MEMBER_CERTIFICATES_MAX);
    assert_int_equal(issue(&list, &believed, 22, 1000, 100), LH_OK);
    lh_member_list_reset(&list);
}

/* One that was signed by a CA that is gone is of no use to anybody. */
static void what_nobody_believes_makes_room(void **state) {
    (void)state;
    lh_member_list list = {0};
    lh_authority_list both = both_authorities(), one;
    lh_authority_list_begin(&one, "0000000000000000", 1);
    for (int i = 1; i <= (int)LH_MEMBER_CERTIFICATES_MAX; i++)
        assert_int_equal(issue(&list, &both, i, 1000, 50), LH_OK);
    assert_int_equal(lh_member_list_count(&list, "attic", &one, 50),
                     LH_MEMBER_CERTIFICATES_MAX / 2);
    assert_int_equal(issue(&list, &one, 20, 1000, 50), LH_OK);
    assert_int_equal(list.members[0].issued_s, 2);
    lh_member_list_reset(&list);
}

static void those_that_ended_long_ago_are_dropped(void **state) {
    (void)state;
    lh_member_list list = {0};
    add(&list, "attic", 1, 10);
    add(&list, "attic", 2, 20);
    add(&list, "cellar", 3, 15);
    lh_member_list_prune(&list, 15);
    assert_int_equal(list.count, 3);
    lh_member_list_prune(&list, 15 + LH_MEMBER_KEPT_S);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.members[0].issued_s, 2);
    lh_member_list_reset(&list);
}

static void a_key_is_found_by_its_youngest_certificate(void **state) {
    (void)state;
    lh_member_list list = {0};
    const uint8_t key[LH_SHA256_BYTES] = {7}, other[LH_SHA256_BYTES] = {8};
    add(&list, "attic", 7, 100);
    add(&list, "attic", 7, 200);
    add(&list, "cellar", 8, 200);
    assert_int_equal(lh_member_list_find_key(&list, "attic", key, 50)->expires_s, 200);
    assert_null(lh_member_list_find_key(&list, "attic", key, 200));
    assert_null(lh_member_list_find_key(&list, "attic", other, 50));
    assert_string_equal(lh_member_list_find_serial(&list, "00000000000000000000000000000008")->name,
                        "cellar");
    assert_null(lh_member_list_find_serial(&list, "8"));
    lh_member_list_reset(&list);
}

/* An older certificate of another CA is in nobody's way when its owner uses a younger one: that one
 * was issued proves nothing. */
static void a_ca_is_depended_on_until_younger_certificates_are_in_use(void **state) {
    (void)state;
    lh_member_list list = {0};
    lh_certificates_in_use *in_use = calloc(1, sizeof *in_use);
    static const char even[] = "0000000000000000", odd[] = "0000000000000001";
    add(&list, "attic", 1, 100);
    assert_true(lh_member_list_depends_on(&list, odd, NULL, 50));
    assert_false(lh_member_list_depends_on(&list, odd, NULL, 100));
    add(&list, "attic", 2, 110);
    assert_true(lh_member_list_depends_on(&list, odd, in_use, 50));
    lh_certificates_in_use_note(in_use, "attic", 100);
    assert_true(lh_member_list_depends_on(&list, odd, in_use, 50));
    lh_certificates_in_use_note(in_use, "attic", 110);
    assert_false(lh_member_list_depends_on(&list, odd, in_use, 50));
    assert_true(lh_member_list_depends_on(&list, even, in_use, 50));
    add(&list, "cellar", 3, 100);
    assert_true(lh_member_list_depends_on(&list, odd, in_use, 50));
    lh_member_list_revoke(&list, "cellar", 50);
    assert_false(lh_member_list_depends_on(&list, odd, in_use, 50));
    lh_member_list_reset(&list);
    free(in_use);
}

static void the_list_has_a_limit(void **state) {
    (void)state;
    lh_member_list list = {0};
    for (unsigned i = 0; i < LH_MEMBERS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        add(&list, name, (int)i, 100);
    }
    const lh_authority_list believed = both_authorities();
    lh_member member = make("one-more", 1, 200);
    assert_int_equal(lh_member_list_add(&list, &member, &believed, 99, NULL), LH_ERR_LIMIT);
    assert_int_equal(lh_member_list_add(&list, &member, &believed, 100, NULL), LH_OK);
    assert_int_equal(list.count, 1);
    lh_member_list_reset(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_belongs_to_the_keys_that_have_it),
        cmocka_unit_test(what_is_in_force_makes_no_room),
        cmocka_unit_test(what_nobody_believes_makes_room),
        cmocka_unit_test(those_that_ended_long_ago_are_dropped),
        cmocka_unit_test(a_key_is_found_by_its_youngest_certificate),
        cmocka_unit_test(a_ca_is_depended_on_until_younger_certificates_are_in_use),
        cmocka_unit_test(the_list_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
