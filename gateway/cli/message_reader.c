/* Lines of the terminal, which its driver edits. */
#include "gateway/cli/message_reader.h"

#include "gateway/cli/interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX (1u << 20)
/* A terminal's driver drops what a line has beyond (termios(3)), and does not tell. */
#define LINE_BYTES_MAX 4094

static const char mark[] = "\"\"\"", blanks[] = " \t\r\n";
enum { MARK_BYTES = sizeof mark - 1 };

static void ask(const char *prompt) {
    fputs(prompt, stderr);
    fflush(stderr);
}

/* With its newline, where it has one. */
static lh_status read_line(char line[LINE_BYTES_MAX + 2], size_t *length, lh_error *error) {
    ssize_t got = read(STDIN_FILENO, line, LINE_BYTES_MAX + 2);
    if (got < 0 && errno == EINTR)
        return LH_AGAIN;
    if (got <= 0)
        return LH_ERR_CLOSED;
    *length = (size_t)got;
    if (*length <= LINE_BYTES_MAX)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT,
                   "a terminal takes lines of %d bytes: break it into several, between \"\"\" and "
                   "\"\"\", or send a file to standard input",
                   LINE_BYTES_MAX);
}

static lh_status add_line(lh_text_buffer *message, lh_error *error) {
    char line[LINE_BYTES_MAX + 2];
    size_t length;
    lh_status status = read_line(line, &length, error);
    if (status == LH_OK && message->length + length > MESSAGE_BYTES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "a message has 1 MiB at most");
    return status == LH_OK ? lh_text_buffer_append(message, line, length, error) : status;
}

/* ---- Its begin and its end ---- */

static void drop(lh_text_buffer *message, size_t from, size_t bytes) {
    memmove(message->bytes + from, message->bytes + from + bytes, message->length - from - bytes);
    message->length -= bytes;
}

static void trim(lh_text_buffer *message) {
    size_t first = 0;
    while (message->length > 0 &&
           memchr(blanks, message->bytes[message->length - 1], sizeof blanks - 1))
        message->length--;
    while (first < message->length && memchr(blanks, message->bytes[first], sizeof blanks - 1))
        first++;
    if (first > 0)
        drop(message, 0, first);
}

static bool is_open(const lh_text_buffer *message) {
    return message->length >= MARK_BYTES && memcmp(message->bytes, mark, MARK_BYTES) == 0;
}

/* Behind the mark that has opened it. */
static bool is_ended(const lh_text_buffer *message) {
    const char *begin = message->bytes + MARK_BYTES;
    return memmem(begin, message->length - MARK_BYTES, mark, MARK_BYTES);
}

/* The end of another mark, and what stands behind it, goes. */
static void take_marks_off(lh_text_buffer *message) {
    const char *begin = message->bytes + MARK_BYTES;
    const char *end = memmem(begin, message->length - MARK_BYTES, mark, MARK_BYTES);
    message->length = (size_t)(end - message->bytes);
    drop(message, 0, MARK_BYTES);
}

lh_status lh_message_read(lh_text_buffer *message, lh_error *error) {
    message->length = 0;
    ask(">>> ");
    lh_status status = add_line(message, error);
    if (status != LH_OK)
        return status;
    trim(message);
    if (!is_open(message))
        return LH_OK;
    status = lh_text_buffer_append(message, "\n", 1, error);
    while (status == LH_OK && !is_ended(message)) {
        ask("... ");
        status = add_line(message, error);
    }
    if (status != LH_OK)
        return status;
    take_marks_off(message);
    trim(message);
    return LH_OK;
}

lh_status lh_message_read_all(lh_text_buffer *message, lh_error *error) {
    char block[65536];
    ssize_t got;
    message->length = 0;
    while ((got = read(STDIN_FILENO, block, sizeof block)) > 0) {
        if (message->length + (size_t)got > MESSAGE_BYTES_MAX)
            return lh_fail(error, LH_ERR_LIMIT, "a message has 1 MiB at most");
        lh_status status = lh_text_buffer_append(message, block, (size_t)got, error);
        if (status != LH_OK)
            return status;
    }
    if (got < 0)
        return lh_fail(error, LH_ERR_IO, "standard input cannot be read: %s", strerror(errno));
    trim(message);
    return LH_OK;
}
