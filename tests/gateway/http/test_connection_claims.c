/* Whose place is given up where places run short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/http/connection_claims.h"
#include "tests/support/failing_malloc.h"

#include <stdlib.h>

/* Places: they are scarce above 56, and the last ones above 60. */
#define MOST   64u
#define SCARCE 56u
#define LAST   60u
#define SECOND 1000000
#define NOW    (100 * (int64_t)SECOND)
#define NOBODY UINT32_MAX

/* Of a stranger at this address who has waited so since then. */
static uint32_t add(lh_connection_claims *claims, uint64_t address, lh_http_wait wait,
                    int64_t since_us) {
    uint32_t index = lh_connection_claims_add(claims, address, NULL, since_us);
    assert_int_equal(index, claims->count - 1);
    lh_connection_claims_wait(claims, index, wait, since_us);
    return index;
}

static uint32_t add_known(lh_connection_claims *claims, uint64_t client, lh_http_wait wait,
                          int64_t since_us) {
    uint32_t index = add(claims, 1, wait, since_us);
    lh_connection_claims_know(claims, index, client);
    return index;
}

/* Those who are being answered take so many places that one more place is scarce, or one of the
 * last. */
static void fill(lh_connection_claims *claims, uint32_t places) {
    while (claims->count < places)
        add(claims, 2, LH_HTTP_WAITS_NOT, 0);
}

static void open_claims(lh_connection_claims *claims) {
    assert_int_equal(lh_connection_claims_init(claims, MOST, 0, NULL), LH_OK);
}

static void close_claims(lh_connection_claims *claims) {
    while (claims->count)
        lh_connection_claims_remove(claims, claims->count / 2);
    assert_int_equal(claims->going, 0);
    assert_int_equal(claims->known, 0);
    assert_int_equal(claims->owners.owners, 0);
    lh_connection_claims_reset(claims);
}

static void nobody_goes_while_there_are_places(void **state) {
    (void)state;
    lh_connection_claims claims;
    open_claims(&claims);
    for (uint32_t i = 0; i < SCARCE; i++) {
        add(&claims, 3, LH_HTTP_RESTS, 0);
        assert_int_equal(lh_connection_claims_shed(&claims, NOW), NOBODY);
    }
    add(&claims, 3, LH_HTTP_RESTS, 0);
    assert_int_not_equal(lh_connection_claims_shed(&claims, NOW), NOBODY);
    /* Its place counts as free, though it is not closed yet. */
    assert_int_equal(claims.going, 1);
    assert_int_equal(lh_connection_claims_shed(&claims, NOW), NOBODY);
    close_claims(&claims);
}

/* Resting ones first, of them those of the owner with most, of them who has waited longest. */
static void they_go_in_order(void **state) {
    (void)state;
    lh_connection_claims claims;
    open_claims(&claims);
    fill(&claims, SCARCE - 9);
    uint32_t taker = add(&claims, 10, LH_HTTP_WAITS_TO_TAKE, NOW - 90 * SECOND);
    uint32_t sender = add(&claims, 10, LH_HTTP_WAITS_TO_SEND, NOW - 80 * SECOND);
    uint32_t alone = add(&claims, 11, LH_HTTP_RESTS, NOW - 70 * SECOND);
    uint32_t third = add(&claims, 12, LH_HTTP_RESTS, NOW - 20 * SECOND);
    uint32_t first = add(&claims, 12, LH_HTTP_RESTS, NOW - 40 * SECOND);
    uint32_t second = add(&claims, 12, LH_HTTP_RESTS, NOW - 30 * SECOND);
    /* This address has as many as the other one, once that has lost one. */
    uint32_t older = add(&claims, 13, LH_HTTP_RESTS, NOW - 35 * SECOND);
    uint32_t newer = add(&claims, 13, LH_HTTP_RESTS, NOW - 25 * SECOND);
    uint32_t fresh = add(&claims, 12, LH_HTTP_RESTS, NOW - SECOND + 1);
    const uint32_t order[] = {first, second, older, third, alone, newer, sender, taker};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        add(&claims, 2, LH_HTTP_WAITS_NOT, 0);
        uint32_t goes = lh_connection_claims_shed(&claims, NOW);
        if (i == 4 || i == 5) /* one each */
            assert_true(goes == alone || goes == newer);
        else
            assert_int_equal(goes, order[i]);
        if (claims.count == MOST)
            break;
    }
    assert_false(claims.list[fresh].is_going);
    close_claims(&claims);
}

static void who_is_being_answered_stays(void **state) {
    (void)state;
    lh_connection_claims claims;
    open_claims(&claims);
    fill(&claims, MOST);
    assert_int_equal(lh_connection_claims_shed(&claims, NOW), NOBODY);
    assert_int_equal(lh_connection_claims_add(&claims, 1, NULL, NOW), NOBODY);
    close_claims(&claims);
}

/* Places are kept for him who came just now, but for the last of them. */
static void nobody_goes_in_his_first_second(void **state) {
    (void)state;
    lh_connection_claims claims;
    open_claims(&claims);
    fill(&claims, SCARCE - 10);
    for (uint32_t i = 0; i < 14; i++) {
        add(&claims, 3, LH_HTTP_WAITS_TO_SEND, NOW - SECOND + 1);
        assert_int_equal(lh_connection_claims_shed(&claims, NOW), NOBODY);
    }
    assert_int_equal(claims.count, LAST);
    uint32_t last = add(&claims, 4, LH_HTTP_WAITS_TO_SEND, NOW);
    uint32_t goes = lh_connection_claims_shed(&claims, NOW);
    assert_true(goes != NOBODY && goes != last);
    assert_int_equal(claims.list[goes].address, 3); /* which has most */
    /* A second later they go as others do. */
    assert_int_not_equal(lh_connection_claims_shed(&claims, NOW + SECOND), NOBODY);
    close_claims(&claims);
}

/* However many strangers there are, those with a key keep half of the places, and the other way
 * round strangers an eighth. */
static void each_group_keeps_its_places(void **state) {
    (void)state;
    lh_connection_claims claims;
    open_claims(&claims);
    for (uint32_t i = 0; i < MOST / 2; i++)
        add_known(&claims, 77, LH_HTTP_RESTS, 0);
    while (claims.count < LAST)
        add(&claims, 1000 + claims.count, LH_HTTP_WAITS_TO_SEND, NOW - 2 * SECOND);
    for (uint32_t i = SCARCE; i < LAST; i++)
        assert_int_equal(claims.list[lh_connection_claims_shed(&claims, NOW)].client, 0);
    close_claims(&claims);

    open_claims(&claims);
    for (uint32_t i = 0; i < MOST / 8; i++)
        add(&claims, 3, LH_HTTP_RESTS, 0);
    while (claims.count < LAST)
        add_known(&claims, 1000 + claims.count, LH_HTTP_WAITS_TO_TAKE, NOW - 2 * SECOND);
    for (uint32_t i = SCARCE; i < LAST; i++)
        assert_int_not_equal(claims.list[lh_connection_claims_shed(&claims, NOW)].client, 0);
    close_claims(&claims);
}

/* Where the others are all being answered, what is kept goes only for the last places. */
static void what_is_kept_goes_last(void **state) {
    (void)state;
    lh_connection_claims claims;
    open_claims(&claims);
    uint32_t kept = add_known(&claims, 77, LH_HTTP_RESTS, 0);
    fill(&claims, LAST);
    assert_int_equal(lh_connection_claims_shed(&claims, NOW), NOBODY);
    add(&claims, 2, LH_HTTP_WAITS_NOT, 0);
    assert_int_equal(lh_connection_claims_shed(&claims, NOW), kept);
    close_claims(&claims);
}

/* Its client is the owner, from whatever address, and the one whose key it showed last. */
static void a_key_makes_its_client_the_owner(void **state) {
    (void)state;
    lh_connection_claims claims;
    open_claims(&claims);
    uint32_t index = add(&claims, 5, LH_HTTP_RESTS, 0);
    lh_connection_claims_know(&claims, index, 77);
    lh_connection_claims_know(&claims, index, 78);
    assert_int_equal(claims.known, 1);
    assert_int_equal(lh_holdings_of(&claims.owners, 77), 0);
    assert_int_equal(lh_holdings_of(&claims.owners, 78), 1);
    assert_int_equal(lh_holdings_of(&claims.owners, 5), 1);
    fill(&claims, LAST + 1);
    assert_int_equal(lh_connection_claims_shed(&claims, NOW), index);
    lh_connection_claims_know(&claims, index, 79); /* too late */
    assert_int_equal(claims.known, 0);
    close_claims(&claims);
}

static void an_address_has_so_many(void **state) {
    (void)state;
    lh_connection_claims claims;
    assert_int_equal(lh_connection_claims_init(&claims, MOST, 2, NULL), LH_OK);
    uint32_t first = lh_connection_claims_add(&claims, 5, NULL, NOW);
    lh_connection_claims_know(&claims, first, 77); /* counts as of the address all the same */
    assert_int_not_equal(lh_connection_claims_add(&claims, 5, NULL, NOW), NOBODY);
    assert_int_equal(lh_connection_claims_add(&claims, 5, NULL, NOW), NOBODY);
    assert_int_not_equal(lh_connection_claims_add(&claims, 6, NULL, NOW), NOBODY);
    lh_connection_claims_remove(&claims, first);
    assert_int_not_equal(lh_connection_claims_add(&claims, 5, NULL, NOW), NOBODY);
    close_claims(&claims);
}

/* ---- All of it at once, against the rules as they are written ---- */

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* What decides about a claim, as one number: the greater goes. Counts are made anew. */
static uint64_t greatness(const lh_connection_claims *claims, const lh_connection_claim *claim) {
    uint64_t known = 0, unknown = 0, owned = 0;
    for (uint32_t i = 0; i < claims->count; i++) {
        const lh_connection_claim *other = &claims->list[i];
        if (other->is_going)
            continue;
        *(other->client ? &known : &unknown) += 1;
        owned += claim->client ? other->client == claim->client : other->address == claim->address;
    }
    bool is_kept = claim->client ? known <= MOST / 2 : unknown <= MOST / 8;
    bool is_fresh = NOW - claim->since_us < SECOND;
    uint64_t waited = (uint64_t)(NOW - claim->since_us);
    return (uint64_t)!is_kept << 63 | (uint64_t)!is_fresh << 62 | (uint64_t)claim->wait << 60 |
           owned << 50 | waited;
}

static void the_rules_hold_in_any_crowd(void **state) {
    (void)state;
    uint64_t seed = 3;
    uint32_t nobody = 0, somebody = 0;
    for (int crowd = 0; crowd < 20000; crowd++) {
        lh_connection_claims claims;
        open_claims(&claims);
        uint32_t count = SCARCE - 2 + (uint32_t)(next_random(&seed) % (MOST - SCARCE + 3));
        uint64_t known_part = next_random(&seed) % 9, waiting_part = next_random(&seed) % 9;
        for (uint32_t i = 0; i < count; i++) {
            bool waits = next_random(&seed) % 8 < waiting_part;
            uint32_t index = add(&claims, 1 + next_random(&seed) % 5,
                                 waits ? 1 + next_random(&seed) % 3 : LH_HTTP_WAITS_NOT,
                                 NOW - (int64_t)(next_random(&seed) % 4 * (SECOND / 2)));
            if (next_random(&seed) % 8 < known_part)
                lh_connection_claims_know(&claims, index, 100 + next_random(&seed) % 5);
        }
        for (;;) {
            lh_connection_claims before = claims;
            lh_connection_claim list[MOST];
            for (uint32_t i = 0; i < count; i++)
                list[i] = claims.list[i];
            before.list = list;
            uint32_t stays = count - claims.going, goes = lh_connection_claims_shed(&claims, NOW);
            uint64_t least = stays <= SCARCE ? UINT64_MAX : stays <= LAST ? 3ull << 62 : 0;
            for (uint32_t i = 0; i < count; i++) {
                bool may_go = list[i].wait != LH_HTTP_WAITS_NOT && !list[i].is_going &&
                              greatness(&before, &list[i]) >= least;
                if (goes == NOBODY || i == goes)
                    assert_int_equal(may_go, i == goes);
                else if (may_go)
                    assert_true(greatness(&before, &list[i]) <= greatness(&before, &list[goes]));
            }
            *(goes == NOBODY ? &nobody : &somebody) += 1;
            if (goes == NOBODY)
                break;
        }
        close_claims(&claims);
    }
    assert_true(nobody > 1000 && somebody > 1000);
}

static void without_memory_there_are_none(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_connection_claims claims;
        failing_malloc_arm(n);
        lh_status status = lh_connection_claims_init(&claims, MOST, 0, NULL);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            close_claims(&claims);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_goes_while_there_are_places),
        cmocka_unit_test(they_go_in_order),
        cmocka_unit_test(who_is_being_answered_stays),
        cmocka_unit_test(nobody_goes_in_his_first_second),
        cmocka_unit_test(each_group_keeps_its_places),
        cmocka_unit_test(what_is_kept_goes_last),
        cmocka_unit_test(a_key_makes_its_client_the_owner),
        cmocka_unit_test(an_address_has_so_many),
        cmocka_unit_test(the_rules_hold_in_any_crowd),
        cmocka_unit_test(without_memory_there_are_none),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
