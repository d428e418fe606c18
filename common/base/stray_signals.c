/* sigaction. */
#include "common/base/stray_signals.h"

#include <signal.h>
#include <stddef.h>

static void ignore(int number) {
    struct sigaction now;
    if (sigaction(number, NULL, &now) != 0 || now.sa_handler != SIG_DFL)
        return;
    now.sa_handler = SIG_IGN;
    sigaction(number, &now, NULL);
}

void lh_stray_signals_ignore(void) {
    static const int strays[] = {SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM,
                                 SIGPROF, SIGIO,   SIGPWR,  SIGXFSZ, SIGSTKFLT};
    for (size_t i = 0; i < sizeof strays / sizeof strays[0]; i++)
        ignore(strays[i]);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        ignore(number);
}
