/* One allocation after the other. */
#include "tests/gateway/support/short_memory.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

uint32_t short_memory_try(short_memory_call *call, const void *context) {
    for (uint32_t n = 1;; n++) {
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status = call(context, &error);
        if (!failing_malloc_disarm())
            return n - 1;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_true(error.message[0] != 0);
    }
}
