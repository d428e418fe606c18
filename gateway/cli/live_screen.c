/* termios, two escape sequences and ppoll. */
#include "gateway/cli/live_screen.h"

#include "common/base/clock.h"
#include "common/base/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* The alternate screen without a cursor, and back. */
static const char enter_screen[] = "\033[?1049h\033[?25l", leave_screen[] = "\033[?25h\033[?1049l";
static const char home[] = "\033[H", clear_line[] = "\033[K", clear_rest[] = "\033[J";

/* A signal's handler has to reach them. */
static struct termios before;
static volatile sig_atomic_t is_open, has_keys, was_resized;

static void put_all(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written <= 0 && errno != EINTR)
            return;
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
}

static void give_back(void) {
    if (!is_open)
        return;
    is_open = 0;
    put_all(leave_screen, sizeof leave_screen - 1);
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* All that it calls may be called here (signal-safety(7)). To end so is what was asked for. */
static void on_end(int number) {
    (void)number;
    give_back();
    _exit(0);
}

static void on_resize(int number) {
    (void)number;
    was_resized = 1;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* Keys one by one, unseen; Ctrl-Z would leave the alternate screen to the shell. */
static void take_keys(void) {
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return;
    struct termios now = before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    now.c_cc[VSUSP] = _POSIX_VDISABLE;
    has_keys = 1;
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

bool lh_live_screen_open(bool wants_screen) {
    handle(SIGINT, on_end);
    handle(SIGTERM, on_end);
    handle(SIGHUP, on_end);
    if (!wants_screen || !isatty(STDOUT_FILENO))
        return false;
    handle(SIGWINCH, on_resize);
    is_open = 1;
    take_keys();
    put_all(enter_screen, sizeof enter_screen - 1);
    return true;
}

void lh_live_screen_close(void) {
    give_back();
}

/* Each line is cleared behind its end, so that nothing flickers as it would on an empty screen. */
static lh_status draw(const lh_text_buffer *page, lh_text_buffer *out) {
    uint32_t height = lh_terminal_height(), line = 1;
    lh_status status = lh_text_buffer_append(out, home, sizeof home - 1, NULL);
    for (size_t at = 0; status == LH_OK && at < page->length && (!height || line <= height);
         line++) {
        const char *end = memchr(page->bytes + at, '\n', page->length - at);
        size_t length = (end ? (size_t)(end - page->bytes) : page->length) - at;
        if (line > 1)
            status = lh_text_buffer_append(out, "\n", 1, NULL);
        if (status == LH_OK)
            status = lh_text_buffer_append(out, page->bytes + at, length, NULL);
        if (status == LH_OK)
            status = lh_text_buffer_append(out, clear_line, sizeof clear_line - 1, NULL);
        at += length + 1;
    }
    return status == LH_OK ? lh_text_buffer_append(out, clear_rest, sizeof clear_rest - 1, NULL)
                           : status;
}

lh_status lh_live_screen_show(const lh_text_buffer *page) {
    lh_text_buffer out = {0};
    if (!is_open) {
        put_all(page->bytes, page->length);
        return LH_OK;
    }
    lh_status status = draw(page, &out);
    if (status == LH_OK)
        put_all(out.bytes, out.length);
    lh_text_buffer_reset(&out);
    return status;
}

/* False: q was pressed, or nobody can press a key any more. */
static bool read_key(void) {
    char key;
    ssize_t length = read(STDIN_FILENO, &key, 1);
    if (length == 0)
        has_keys = 0;
    return length != 1 || (key != 'q' && key != 'Q');
}

bool lh_live_screen_wait(int64_t milliseconds) {
    int64_t end_us = lh_clock_us() + milliseconds * 1000;
    for (;;) {
        int64_t left_us = end_us - lh_clock_us();
        if (left_us <= 0 || was_resized)
            break;
        struct pollfd keys = {.fd = is_open && has_keys ? STDIN_FILENO : -1, .events = POLLIN};
        int ready = poll(&keys, 1, (int)(left_us / 1000 + 1));
        if (ready > 0 && !read_key())
            return false;
    }
    was_resized = 0;
    return true;
}
