/* What is loaded is asked for by RTLD_NOLOAD. Each list in a child: a library that is loaded stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/sandbox/late_libraries.h"
#include "tests/common/support/child.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_loaded(const char *name) {
    return dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}

/* hesiod and compat are the C library's own, and part of no program. 1 and 2 are set where they
 * are loaded. */
static int load_list(void *context) {
    char path[] = "/tmp/longhaul-names-XXXXXX";
    int descriptor = mkstemp(path);
    dprintf(descriptor, "%s", (const char *)context);
    close(descriptor);
    lh_late_libraries_load(path);
    unlink(path);
    return is_loaded("libnss_compat.so.2") + 2 * is_loaded("libnss_hesiod.so.2") +
           4 * is_loaded("libgcc_s.so.1");
}

static int have_both(void *context) {
    (void)context;
    return dlopen("libnss_compat.so.2", RTLD_NOW) && dlopen("libnss_hesiod.so.2", RTLD_NOW);
}

static int load_nothing(void *context) {
    (void)context;
    lh_late_libraries_load("/nowhere");
    return 0;
}

static void the_name_services_of_hosts_are_loaded(void **state) {
    (void)state;
    if (!child_outcome(have_both, NULL))
        skip();
    static const struct {
        const char *text;
        int loaded;
    } lists[] = {{"passwd: compat\nhosts: files hesiod\n", 4 + 2},
                 {"hosts:\tfiles [ !UNAVAIL = compat ] hesiod [NOTFOUND=return] none\n", 4 + 2},
                 {"# hosts: hesiod\n", 4},
                 {"hosts: compat hesiod", 4 + 2 + 1}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        assert_int_equal(child_outcome(load_list, (void *)lists[i].text), lists[i].loaded);
}

static void a_list_that_is_not_there_is_none(void **state) {
    (void)state;
    assert_int_equal(child_outcome(load_nothing, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_services_of_hosts_are_loaded),
        cmocka_unit_test(a_list_that_is_not_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
