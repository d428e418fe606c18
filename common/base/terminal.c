/* TIOCGWINSZ and the environment. */
#include "common/base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool read_size(struct winsize *size) {
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, size) == 0;
}

uint32_t lh_terminal_width(uint32_t otherwise) {
    struct winsize size;
    return read_size(&size) && size.ws_col ? size.ws_col : otherwise;
}

uint32_t lh_terminal_height(void) {
    struct winsize size;
    return read_size(&size) ? size.ws_row : 0;
}

bool lh_terminal_wants_colours(void) {
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && (!no_colour || !no_colour[0]) && terminal &&
           strcmp(terminal, "dumb") != 0;
}
