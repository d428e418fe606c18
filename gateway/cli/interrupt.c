/* SIGINT without SA_RESTART. */
#include "gateway/cli/interrupt.h"

#include <signal.h>

static volatile sig_atomic_t is_pending;

static void on_interrupt(int number) {
    (void)number;
    is_pending = 1;
}

void lh_interrupt_catch(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool lh_interrupt_take(void) {
    bool was_pending = is_pending;
    is_pending = 0;
    return was_pending;
}

bool lh_interrupt_is_pending(void) {
    return is_pending;
}
