/* A header block is taken apart as libmicrohttpd does it (each CR and LF, and the colon, become
 * NUL), and then looked at. */
#include "gateway/http/header_block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct parsed {
    char bytes[512];
    lh_http_header_block block;
} parsed;

/* The end of the line at `at`, NUL written over its CR and LF, and the beginning of the next. */
static size_t end_line(char *bytes, size_t at, size_t *next) {
    while (bytes[at] != '\n')
        at++;
    size_t end = at;
    bytes[at] = '\0';
    if (at > 0 && bytes[at - 1] == '\r')
        bytes[end = at - 1] = '\0';
    *next = at + 1;
    return end;
}

static void parse_line(parsed *all, char *line) {
    char *colon = strchr(line, ':'), *value = colon + 1;
    *colon = '\0';
    value += strspn(value, " \t");
    size_t index = all->block.header_count++;
    all->block.names[index] = (lh_http_piece){line, strlen(line)};
    all->block.values[index] = (lh_http_piece){value, strlen(value)};
}

static bool is_plain(const char *raw, size_t length) {
    parsed *all = calloc(1, sizeof *all);
    memcpy(all->bytes, raw, length);
    size_t at, next, end = end_line(all->bytes, 0, &next);
    char *target = strchr(all->bytes, ' ') + 1, *version = all->bytes + end;
    while (*version != ' ')
        version--;
    *version = '\0';
    all->block = (lh_http_header_block){.start = all->bytes,
                                        .target = {target, strlen(target)},
                                        .version = {version + 1, strlen(version + 1)}};
    for (at = next; end_line(all->bytes, at, &next) != at; at = next)
        parse_line(all, all->bytes + at);
    all->block.bytes = next;
    bool plain = lh_http_header_block_is_plain(&all->block);
    free(all);
    return plain;
}

#define IS_PLAIN(text) is_plain(text, sizeof text - 1)

static void takes_plain_blocks(void **state) {
    (void)state;
    assert_true(IS_PLAIN("GET / HTTP/1.1\r\n\r\n"));
    assert_true(IS_PLAIN("GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_true(IS_PLAIN("GET / HTTP/1.1\r\nHost:a\r\nX:\r\nY: \t b c \r\n\r\n"));
}

static void finds_bare_line_feeds(void **state) {
    (void)state;
    assert_false(IS_PLAIN("GET / HTTP/1.1\n\r\n"));
    assert_false(IS_PLAIN("GET / HTTP/1.1\r\n\n"));
    assert_false(IS_PLAIN("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"));
    assert_false(IS_PLAIN("GET / HTTP/1.1\r\nX: b\r\nHost: a\n\r\n"));
    assert_false(IS_PLAIN("GET / HTTP/1.1\nHost: a\n\n"));
}

static void finds_nuls(void **state) {
    (void)state;
    assert_false(IS_PLAIN("GET /a\0b HTTP/1.1\r\n\r\n"));
    assert_false(IS_PLAIN("GET / HTTP/1.1\r\nX: a\0b\r\n\r\n"));
    assert_false(IS_PLAIN("GET / HTTP/1.1\r\nX: a\0\0b\r\nY: c\r\n\r\n"));
    assert_false(IS_PLAIN("GET / HTTP/1.1\r\nX: a\0\0\r\n\r\n"));
}

static void finds_pieces_from_elsewhere(void **state) {
    (void)state;
    char bytes[] = "GET / HTTP/1.1\0\0Host\0 a\0\0\0";
    bytes[3] = bytes[5] = '\0';
    char *folded = strdup("a b"); /* as a parser joins folded lines: in other memory */
    lh_http_header_block block = {
        bytes, 27, {bytes + 4, 1}, {bytes + 6, 8}, 1, {{bytes + 16, 4}}, {{bytes + 22, 1}}};
    assert_true(lh_http_header_block_is_plain(&block));
    block.values[0] = (lh_http_piece){folded, 3};
    assert_false(lh_http_header_block_is_plain(&block));
    block.values[0] = (lh_http_piece){bytes + 22, 1};
    block.bytes = 26;
    assert_false(lh_http_header_block_is_plain(&block));
    block.header_count = 0;
    assert_false(lh_http_header_block_is_plain(&block));
    free(folded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_plain_blocks),
        cmocka_unit_test(finds_bare_line_feeds),
        cmocka_unit_test(finds_nuls),
        cmocka_unit_test(finds_pieces_from_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
