/* Whether all members have said that they believe the bundle. */
#include "gateway/membership/trust_spread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ONE   "1111111111111111111111111111111111111111111111111111111111111111"
#define OTHER "2222222222222222222222222222222222222222222222222222222222222222"

static lh_member_list members_named(const char *const *names, size_t count) {
    lh_member_list list = {0};
    for (size_t i = 0; i < count; i++) {
        lh_member member = {.expires_s = 1};
        snprintf(member.name, sizeof member.name, "%s", names[i]);
        assert_int_equal(lh_member_list_append(&list, &member, NULL), LH_OK);
    }
    return list;
}

static void is_complete_when_all_members_have_said_it(void **state) {
    (void)state;
    static const char *const names[] = {"attic", "cellar", "attic"};
    lh_member_list members = members_named(names, 3);
    lh_trust_spread *spread = calloc(1, sizeof *spread);
    lh_trust_spread_begin(spread, ONE);
    assert_false(lh_trust_spread_is_complete(spread, &members, 0));
    lh_trust_spread_note(spread, "attic", ONE);
    lh_trust_spread_note(spread, "cellar", OTHER);
    lh_trust_spread_note(spread, "cellar", "");
    assert_false(lh_trust_spread_is_complete(spread, &members, 0));
    lh_trust_spread_note(spread, "cellar", ONE);
    assert_true(lh_trust_spread_is_complete(spread, &members, 0));
    lh_trust_spread_begin(spread, ONE);
    assert_true(lh_trust_spread_is_complete(spread, &members, 0));
    lh_trust_spread_begin(spread, OTHER);
    assert_true(lh_trust_spread_is_complete(spread, &members, 1)); /* their time is over */
    assert_false(lh_trust_spread_is_complete(spread, &members, 0));
    lh_member_list_reset(&members);
    free(spread);
}

/* Names come from reports, and so from anybody who has a certificate. */
static void it_does_not_grow(void **state) {
    (void)state;
    lh_trust_spread *spread = calloc(1, sizeof *spread);
    lh_trust_spread_begin(spread, ONE);
    for (unsigned i = 0; i < 2 * LH_TRUST_SPREAD_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        lh_trust_spread_note(spread, name, ONE);
        lh_trust_spread_note(spread, name, ONE);
    }
    assert_int_equal(spread->count, LH_TRUST_SPREAD_MAX);
    free(spread);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_complete_when_all_members_have_said_it),
        cmocka_unit_test(it_does_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
