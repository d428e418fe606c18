/* fork, waitpid. */
#include "tests/common/support/child.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int child_outcome(int (*body)(void *context), void *context) {
    int status;
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0)
        _exit(body(context));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            abort();
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
