/* The ports of this very process, which it always sees. */
#include "common/net/listener.h"
#include "common/net/port_owner.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void finds_whose_a_port_is(void **state) {
    (void)state;
    static const char *const addresses[] = {"127.0.0.1:0", "[::1]:0"};
    for (size_t i = 0; i < 2; i++) {
        int fd;
        uint16_t port;
        lh_port_owner owner;
        if (lh_listener_open(addresses[i], &fd, &port, NULL) != LH_OK && i > 0)
            continue; /* this machine is without IPv6 */
        assert_true(lh_port_owner_find(port, &owner));
        assert_int_equal(owner.pid, getpid());
        assert_int_equal(strncmp(owner.program, program_invocation_short_name, 15), 0);
        close(fd);
        assert_false(lh_port_owner_find(port, &owner));
    }
}

static void lists_the_ports_of_a_process(void **state) {
    (void)state;
    int first_fd, second_fd;
    uint16_t first, second, ports[4];
    assert_int_equal(lh_listener_open("127.0.0.1:0", &first_fd, &first, NULL), LH_OK);
    assert_int_equal(lh_listener_open("127.0.0.1:0", &second_fd, &second, NULL), LH_OK);
    assert_int_equal(lh_port_owner_ports(getpid(), ports, 4), 2);
    assert_true((ports[0] == first && ports[1] == second) ||
                (ports[0] == second && ports[1] == first));
    assert_int_equal(lh_port_owner_ports(getpid(), ports, 1), 1);
    close(first_fd);
    close(second_fd);
    assert_int_equal(lh_port_owner_ports(getpid(), ports, 4), 0);
}

static void finds_processes_by_their_program(void **state) {
    (void)state;
    pid_t pids[64];
    size_t count = lh_port_owner_processes(program_invocation_short_name, pids, 64);
    bool is_found = false;
    for (size_t i = 0; i < count; i++)
        is_found = is_found || pids[i] == getpid();
    assert_true(is_found);
    assert_int_equal(lh_port_owner_processes("no-such-program", pids, 64), 0);
}

static void who_has_an_address_is_named(void **state) {
    (void)state;
    int fd;
    uint16_t port;
    char address[32], wanted[64];
    lh_error error;
    assert_int_equal(lh_listener_open("127.0.0.1:0", &fd, &port, NULL), LH_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    lh_port_reservations reserved = {0};
    assert_int_equal(lh_listener_reserve("fleet-listen", address, 60000, &reserved, &error),
                     LH_ERR_EXISTS);
    snprintf(wanted, sizeof wanted, ", process %d; --fleet-listen HOST:PORT", (int)getpid());
    assert_non_null(strstr(error.message, address));
    assert_non_null(strstr(error.message, wanted));
    close(fd);
    assert_int_equal(lh_listener_reserve("listen", "", 0, &reserved, &error), LH_OK);
    assert_int_equal(lh_listener_reserve("listen", "nonsense", 0, &reserved, &error), LH_OK);
    assert_int_equal(reserved.count, 0);
    assert_int_equal(lh_listener_reserve("listen", address, 0, &reserved, &error), LH_OK);
    assert_int_equal(reserved.count, 1);
    lh_listener_release(&reserved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_whose_a_port_is),
        cmocka_unit_test(lists_the_ports_of_a_process),
        cmocka_unit_test(finds_processes_by_their_program),
        cmocka_unit_test(who_has_an_address_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
