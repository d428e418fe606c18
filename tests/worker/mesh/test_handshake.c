/* Two members, and those who are none. */
#include "worker/mesh/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t nonce_a[LH_MESH_NONCE_BYTES] = {1}, nonce_b[LH_MESH_NONCE_BYTES] = {2};

static lh_mesh_identity identity_of(uint32_t own) {
    return (lh_mesh_identity){"llama-1", 4, 3, own, {'s', 'e', 'c', 'r', 'e', 't'}};
}

/* Carries what one has to send to the other; the receiver's status. */
static lh_status carry(lh_mesh_handshake *from, lh_mesh_handshake *to, lh_error *error) {
    size_t length = from->out_length - from->out_sent;
    assert_int_equal(length, to->in_wanted - to->in_length);
    memcpy(to->in + to->in_length, from->out + from->out_sent, length);
    from->out_sent = from->out_length;
    to->in_length += length;
    return lh_mesh_handshake_advance(to, error);
}

typedef struct pair {
    lh_mesh_identity caller, called;
    lh_mesh_handshake c, a;
} pair;

static pair *pair_begin(void) {
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->caller = identity_of(2);
    p->called = identity_of(0);
    return p;
}

static void greet(pair *p) {
    assert_int_equal(lh_mesh_handshake_connect(&p->c, &p->caller, 0, nonce_a, NULL), LH_OK);
    lh_mesh_handshake_accept(&p->a, &p->called, nonce_b);
}

static void two_members_meet(void **state) {
    (void)state;
    pair *p = pair_begin();
    greet(p);
    assert_int_equal(carry(&p->c, &p->a, NULL), LH_OK);
    assert_false(p->a.is_done);
    assert_int_equal(carry(&p->a, &p->c, NULL), LH_OK);
    assert_true(p->c.is_done);
    assert_int_equal(carry(&p->c, &p->a, NULL), LH_OK);
    assert_true(p->a.is_done);
    assert_int_equal(p->a.peer, 2);
    assert_int_equal(p->a.in_wanted, 0);
    free(p);
}

/* What each side says when the other one has this changed. */
static void expect_refusal(const lh_mesh_identity *caller, uint32_t to, lh_status status,
                           const char *says) {
    pair *p = pair_begin();
    lh_error error = {0};
    p->caller = *caller;
    assert_int_equal(lh_mesh_handshake_connect(&p->c, &p->caller, to, nonce_a, NULL), LH_OK);
    lh_mesh_handshake_accept(&p->a, &p->called, nonce_b);
    assert_int_equal(carry(&p->c, &p->a, &error), status);
    assert_non_null(strstr(error.message, says));
    assert_int_equal(p->a.out_length, 0);
    assert_false(p->a.is_done);
    free(p);
}

static void others_are_refused_without_an_answer(void **state) {
    (void)state;
    lh_mesh_identity other = identity_of(2);
    other.chain = "llama-2";
    expect_refusal(&other, 0, LH_ERR_INVALID, "another chain");
    other = identity_of(2);
    other.epoch = 3;
    expect_refusal(&other, 0, LH_ERR_STALE, "epoch 3, where 4");
    other = identity_of(2);
    other.members = 4;
    expect_refusal(&other, 0, LH_ERR_PROTOCOL, "member 2 of 4");
    expect_refusal(&(lh_mesh_identity){"llama-1", 4, 3, 0, {0}}, 0, LH_ERR_PROTOCOL, "member 0");
    expect_refusal(&(lh_mesh_identity){"llama-1", 4, 3, 3, {0}}, 0, LH_ERR_PROTOCOL, "member 3");
    other = identity_of(2);
    expect_refusal(&other, 1, LH_ERR_PROTOCOL, "wants member 1");
}

static void who_calls_without_the_secret_is_refused(void **state) {
    (void)state;
    pair *p = pair_begin();
    lh_error error = {0};
    p->caller.secret[31] ^= 1;
    greet(p);
    assert_int_equal(carry(&p->c, &p->a, NULL), LH_OK);
    /* It would go on, if it could be made to. */
    p->c.is_done = true;
    memcpy(p->a.in, p->a.out + LH_MESH_HELLO_BYTES, LH_SHA256_BYTES); /* the other's own proof */
    p->a.in_length = LH_SHA256_BYTES;
    assert_int_equal(lh_mesh_handshake_advance(&p->a, &error), LH_ERR_CORRUPT);
    assert_non_null(strstr(error.message, "secret"));
    assert_false(p->a.is_done);
    free(p);
}

static void who_answers_without_the_secret_is_refused(void **state) {
    (void)state;
    pair *p = pair_begin();
    p->called.secret[0] ^= 1;
    greet(p);
    assert_int_equal(carry(&p->c, &p->a, NULL), LH_OK);
    assert_int_equal(carry(&p->a, &p->c, NULL), LH_ERR_CORRUPT);
    assert_false(p->c.is_done);
    assert_int_equal(p->c.out_length, LH_MESH_HELLO_BYTES); /* no proof */
    free(p);
}

static void what_was_overheard_opens_nothing(void **state) {
    (void)state;
    pair *first = pair_begin(), *second = pair_begin();
    greet(first);
    assert_int_equal(carry(&first->c, &first->a, NULL), LH_OK);
    assert_int_equal(carry(&first->a, &first->c, NULL), LH_OK);
    /* The same hello and proof again; who is called has another nonce now. */
    lh_mesh_handshake_accept(&second->a, &second->called, nonce_a);
    memcpy(second->a.in, first->c.own_hello, LH_MESH_HELLO_BYTES);
    second->a.in_length = LH_MESH_HELLO_BYTES;
    assert_int_equal(lh_mesh_handshake_advance(&second->a, NULL), LH_OK);
    memcpy(second->a.in, first->c.out + LH_MESH_HELLO_BYTES, LH_SHA256_BYTES);
    second->a.in_length = LH_SHA256_BYTES;
    assert_int_equal(lh_mesh_handshake_advance(&second->a, NULL), LH_ERR_CORRUPT);
    free(first);
    free(second);
}

/* Of the hello, and of the proof. */
static void every_bit_matters(void **state) {
    (void)state;
    for (size_t bit = 0; bit < 8 * (LH_MESH_HELLO_BYTES + LH_SHA256_BYTES); bit++) {
        pair *p = pair_begin();
        greet(p);
        bool is_hello = bit < 8 * LH_MESH_HELLO_BYTES;
        p->c.out[bit / 8] ^= is_hello ? (uint8_t)(1u << bit % 8) : 0;
        lh_status status = carry(&p->c, &p->a, NULL);
        if (status == LH_OK)
            status = carry(&p->a, &p->c, NULL);
        if (status == LH_OK) {
            p->c.out[bit / 8] ^= is_hello ? 0 : (uint8_t)(1u << bit % 8);
            status = carry(&p->c, &p->a, NULL);
        }
        assert_int_not_equal(status, LH_OK);
        assert_false(p->a.is_done);
        free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_members_meet),
        cmocka_unit_test(others_are_refused_without_an_answer),
        cmocka_unit_test(who_calls_without_the_secret_is_refused),
        cmocka_unit_test(who_answers_without_the_secret_is_refused),
        cmocka_unit_test(what_was_overheard_opens_nothing),
        cmocka_unit_test(every_bit_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
