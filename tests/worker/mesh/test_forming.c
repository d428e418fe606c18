/* Members that come in any order, strangers among them, and those who never come. */
#include "worker/mesh/forming.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/log_capture.h"
#include "tests/worker/support/mesh_group.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { SHORT_MS = 60 };

/* Nobody goes before all have formed: those who still form would wait for him. */
static void meet(mesh_member *member) {
    void *own;
    const void *theirs;
    assert_int_equal(lh_mesh_open(member->mesh, 1, &own, NULL), LH_OK);
    *(uint8_t *)own = 1;
    assert_int_equal(lh_mesh_post_gather(member->mesh, 0, NULL), LH_OK);
    for (uint32_t i = 0; i < lh_mesh_members(member->mesh); i++)
        if (i != lh_mesh_own(member->mesh))
            assert_int_equal(lh_mesh_take_gather(member->mesh, 0, i, 1, &theirs, NULL), LH_OK);
    assert_int_equal(lh_mesh_flush(member->mesh, NULL), LH_OK);
}

static void all_find_each_other(void **state) {
    (void)state;
    for (uint32_t count = 2; count <= LH_MEMBERS_MAX; count += 3) {
        mesh_group group;
        mesh_group_begin(&group, count);
        mesh_group_run(&group, meet);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(group.members[i].status, LH_OK);
        mesh_group_end(&group);
    }
}

typedef struct caller {
    lh_mesh_options options;
    lh_mesh *mesh;
    lh_status status;
} caller;

static void *call(void *argument) {
    caller *c = argument;
    c->status = lh_mesh_create(&c->options, &c->mesh, NULL);
    return NULL;
}

/* A port at which nobody listens yet. */
static int bound_port(uint16_t *port) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    lh_address any = {"127.0.0.1", 0};
    assert_true(lh_address_is_literal(&any, &address));
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    return descriptor;
}

static void who_finds_nobody_tries_again(void **state) {
    (void)state;
    mesh_group group;
    uint16_t port;
    int reserved = bound_port(&port);
    pthread_t thread;
    mesh_group_begin(&group, 2);
    group.addresses[0].port = port;
    caller first = {.options = group.members[0].options},
           second = {.options = group.members[1].options};
    first.options.listener = reserved;
    /* Nobody listens: it is refused at least once before its own end. */
    second.options.forming_ms = SHORT_MS;
    call(&second);
    assert_int_equal(second.status, LH_ERR_TIMEOUT);
    second.options.forming_ms = group.members[1].options.forming_ms;
    assert_int_equal(pthread_create(&thread, NULL, call, &second), 0);
    assert_int_equal(listen(reserved, 16), 0);
    call(&first);
    pthread_join(thread, NULL);
    assert_int_equal(first.status, LH_OK);
    assert_int_equal(second.status, LH_OK);
    lh_mesh_destroy(first.mesh);
    lh_mesh_destroy(second.mesh);
    close(reserved);
    mesh_group_end(&group);
}

static void who_never_comes_is_named(void **state) {
    (void)state;
    mesh_group group;
    lh_mesh *mesh;
    lh_error error;
    mesh_group_begin(&group, 4);
    group.members[1].options.forming_ms = SHORT_MS;
    close(group.listeners[0]);
    group.members[1].options.unreached_ms = SHORT_MS / 2;
    assert_int_equal(lh_mesh_create(&group.members[1].options, &mesh, &error), LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.message, "mesh: member 0 at 127.0.0.1:"));
    group.members[1].options.unreached_ms = 0;
    assert_int_equal(lh_mesh_create(&group.members[1].options, &mesh, &error), LH_ERR_TIMEOUT);
    assert_non_null(strstr(error.message, "of members 0, 2, 3 nobody"));
    assert_non_null(strstr(error.message, "member 0 at 127.0.0.1:"));
    assert_non_null(strstr(error.message, "refused"));
    group.listeners[0] = -1;
    mesh_group_end(&group);
}

/* It still builds its stage: whoever connects waits for it. */
static void who_listens_is_awaited(void **state) {
    (void)state;
    mesh_group group;
    lh_mesh *mesh;
    mesh_group_begin(&group, 2);
    group.members[1].options.forming_ms = SHORT_MS;
    group.members[1].options.unreached_ms = 1;
    assert_int_equal(lh_mesh_create(&group.members[1].options, &mesh, NULL), LH_ERR_TIMEOUT);
    mesh_group_end(&group);
}

static void a_member_with_another_secret_does_not_come(void **state) {
    (void)state;
    mesh_group group;
    mesh_group_begin(&group, 2);
    group.members[1].options.identity.secret[0] ^= 1;
    group.members[0].options.forming_ms = group.members[1].options.forming_ms = SHORT_MS;
    mesh_group_run(&group, meet);
    assert_int_equal(group.members[0].status, LH_ERR_TIMEOUT);
    assert_int_equal(group.members[1].status, LH_ERR_TIMEOUT);
    mesh_group_end(&group);
}

static int stranger_to(const mesh_group *group, uint32_t member) {
    struct sockaddr_storage target;
    assert_true(lh_address_is_literal(&group->addresses[member], &target));
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&target, sizeof(struct sockaddr_in)),
                     0);
    return descriptor;
}

/* Some say nothing, one closes, the others say something else: a group forms among them. */
static void strangers_are_refused(void **state) {
    (void)state;
    static const char request[] = "GET / HTTP/1.1\r\nhost: localhost\r\naccept: */*\r\nuser-agent: "
                                  "a-stranger-with-a-long-name/1.0\r\n\r\n";
    enum { STRANGERS = 12 };
    mesh_group group;
    int strangers[STRANGERS];
    char byte;
    mesh_group_begin(&group, 3);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = stranger_to(&group, 0);
        if (i % 3 == 1)
            assert_true(send(strangers[i], request, sizeof request, 0) == sizeof request);
        else if (i % 3 == 2)
            shutdown(strangers[i], SHUT_WR);
    }
    log_capture_begin();
    mesh_group_run(&group, meet);
    char *log = log_capture_end();
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(group.members[i].status, LH_OK);
    assert_non_null(strstr(log, "a connection is refused chain=chain epoch=3 from=127.0.0.1:"));
    assert_non_null(strstr(log, "other bytes came"));
    free(log);
    for (int i = 0; i < STRANGERS; i++) {
        assert_true(recv(strangers[i], &byte, 1, 0) <= 0); /* not a byte in answer */
        close(strangers[i]);
    }
    mesh_group_end(&group);
}

/* What a member says first, as somebody repeats it who has heard it and lacks the secret. */
static void say_hello(const mesh_group *group, int descriptor) {
    static const uint8_t nonce[LH_MESH_NONCE_BYTES] = {7};
    lh_mesh_handshake handshake;
    assert_int_equal(
        lh_mesh_handshake_connect(&handshake, &group->members[1].options.identity, 0, nonce, NULL),
        LH_OK);
    assert_true(send(descriptor, handshake.out, handshake.out_length, 0) ==
                (ssize_t)handshake.out_length);
}

/* Many more than there are places, all there before the members. */
static void form_among_crowd(void (*say)(const mesh_group *group, int descriptor)) {
    enum { CROWD = 400 };
    mesh_group group;
    int crowd[CROWD];
    mesh_group_begin(&group, 3);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = stranger_to(&group, 0);
        if (say)
            say(&group, crowd[i]);
    }
    log_capture_begin();
    mesh_group_run(&group, meet);
    char *log = log_capture_end();
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(group.members[i].status, LH_OK);
    uint32_t lines = 0;
    for (const char *at = log; (at = strstr(at, "a connection is refused")); at++)
        lines++;
    assert_true(lines > 0 && lines < 40);
    free(log);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    mesh_group_end(&group);
}

static void a_crowd_that_is_silent_keeps_nobody_out(void **state) {
    (void)state;
    form_among_crowd(NULL);
}

static void a_crowd_that_says_hello_keeps_nobody_out(void **state) {
    (void)state;
    form_among_crowd(say_hello);
}

static void a_second_one_with_the_same_index_is_refused(void **state) {
    (void)state;
    mesh_group group;
    pthread_t thread;
    char byte;
    mesh_group_begin(&group, 3);
    caller first = {.options = group.members[0].options};
    log_capture_begin();
    assert_int_equal(pthread_create(&thread, NULL, call, &first), 0);
    int one = mesh_group_pose(&group, 2, 0), again = mesh_group_pose(&group, 2, 0);
    assert_int_equal(recv(again, &byte, 1, 0), 0);
    int other = mesh_group_pose(&group, 1, 0);
    pthread_join(thread, NULL);
    char *log = log_capture_end();
    assert_int_equal(first.status, LH_OK);
    lh_mesh_destroy(first.mesh);
    close(other);
    assert_non_null(strstr(log, "there already"));
    free(log);
    close(one);
    close(again);
    mesh_group_end(&group);
}

static void no_number_of_members_is_believed(void **state) {
    (void)state;
    static const struct {
        uint32_t members, own;
    } wrong[] = {{0, 0}, {1, 0}, {LH_MEMBERS_MAX + 1, 0}, {2, 2}};
    mesh_group group;
    mesh_group_begin(&group, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lh_mesh_options options = group.members[0].options;
        lh_mesh *mesh;
        options.identity.members = wrong[i].members;
        options.identity.own = wrong[i].own;
        assert_int_equal(lh_mesh_create(&options, &mesh, NULL), LH_ERR_INVALID);
    }
    mesh_group_end(&group);
}

static void ends_cleanly_without_memory(void **state) {
    (void)state;
    mesh_group group;
    lh_mesh *mesh;
    mesh_group_begin(&group, 2);
    group.members[0].options.forming_ms = 1;
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        lh_status status = lh_mesh_create(&group.members[0].options, &mesh, NULL);
        if (!failing_malloc_disarm())
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
    mesh_group_end(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_find_each_other),
        cmocka_unit_test(who_finds_nobody_tries_again),
        cmocka_unit_test(who_never_comes_is_named),
        cmocka_unit_test(who_listens_is_awaited),
        cmocka_unit_test(a_member_with_another_secret_does_not_come),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_crowd_that_is_silent_keeps_nobody_out),
        cmocka_unit_test(a_crowd_that_says_hello_keeps_nobody_out),
        cmocka_unit_test(a_second_one_with_the_same_index_is_refused),
        cmocka_unit_test(no_number_of_members_is_believed),
        cmocka_unit_test(ends_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
