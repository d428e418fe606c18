/* Follows jinja2's lexer: rule by rule, in its order. */
#include "gateway/text/jinja/lexer.h"

#include "common/base/utf8.h"
#include "gateway/text/jinja/unicode.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BRACKETS_MAX 256
/* To read its digits. */
#define FLOAT_STEPS 40

typedef struct lexer {
    jinja_work *work;
    const char *at, *end;
    bool begins_line; /* what was read last ended with a line feed */
    jinja_token *tokens;
    size_t count, capacity;
    char brackets[BRACKETS_MAX]; /* that are open within the tag */
    size_t depth;
} lexer;

static void push(lexer *lex, jinja_token_kind kind, const char *begin, const char *end) {
    if (lex->count == lex->capacity)
        lex->tokens = jinja_grow(lex->work, lex->tokens, lex->count, &lex->capacity, 128,
                                 sizeof *lex->tokens);
    lex->tokens[lex->count++] =
        (jinja_token){.kind = kind,
                      .line = lex->work->line,
                      .text = jinja_text_of(begin, (size_t)(end - begin), JINJA_OF_TEMPLATE)};
    jinja_step(lex->work, 1);
}

static jinja_token *last(lexer *lex) {
    return &lex->tokens[lex->count - 1];
}

/* Moves on, counting lines. */
static void advance(lexer *lex, const char *to) {
    if (lex->at < to)
        lex->begins_line = to[-1] == '\n';
    for (; lex->at < to; lex->at++)
        lex->work->line += *lex->at == '\n';
}

static bool has(const char *at, const char *end, const char *literal) {
    size_t length = strlen(literal);
    return (size_t)(end - at) >= length && memcmp(at, literal, length) == 0;
}

static const char *skip_space(const char *at, const char *end) {
    while (at < end) {
        const char *next = at;
        if (!jinja_is_space(lh_utf8_decode(&next)))
            break;
        at = next;
    }
    return at;
}

/* Behind the end of a tag, "%}" or "#}", with its sign and the white space that it takes away;
 * NULL: it does not end here. */
static const char *match_end(const char *at, const char *end, const char *mark) {
    bool is_minus = at < end && *at == '-', is_plus = at < end && *at == '+';
    const char *mark_at = at + (is_minus || is_plus);
    if (!has(mark_at, end, mark) || (is_plus && *mark == '}'))
        return NULL;
    at = mark_at + 2;
    if (is_minus)
        return skip_space(at, end);
    bool trims = !is_plus && *mark != '}' && at < end && *at == '\n';
    return at + trims;
}

/* "{%- raw %}": behind it, or NULL. */
static const char *match_raw(const char *at, const char *end, const char *word) {
    at += 2;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    at = skip_space(at, end);
    if (!has(at, end, word))
        return NULL;
    at = skip_space(at + strlen(word), end);
    if (strcmp(word, "endraw") == 0)
        return match_end(at, end, "%}");
    if (has(at, end, "-%}"))
        return skip_space(at + 3, end);
    return has(at, end, "%}") ? at + 2 : NULL;
}

/* The text before a tag, without what the tag's opening takes away. */
static void push_data(lexer *lex, const char *tag) {
    const char *begin = lex->at, *end = tag;
    char sign = tag + 2 < lex->end ? tag[2] : 0;
    if (sign == '-') {
        jinja_text text = jinja_text_of(begin, (size_t)(end - begin), JINJA_OF_TEMPLATE);
        end = begin + jinja_text_strip(lex->work, text, NULL, false, true).length;
    } else if (sign != '+' && tag[1] != '{') {
        const char *line = end;
        while (line > begin && line[-1] != '\n')
            line--;
        if ((line > begin || lex->begins_line) && skip_space(line, end) == end)
            end = line;
    }
    if (end > begin)
        push(lex, JINJA_TOKEN_DATA, begin, end);
    advance(lex, tag);
}

static _Noreturn void fail(lexer *lex, const char *what) {
    jinja_fail(lex->work, LH_ERR_UNSUPPORTED, "%s", what);
}

static void skip_comment(lexer *lex) {
    for (const char *at = lex->at + 2; at < lex->end; at++) {
        const char *behind = match_end(at, lex->end, "#}");
        if (behind) {
            advance(lex, behind);
            return;
        }
    }
    fail(lex, "a comment has no end, \"#}\" is expected");
}

static void take_raw(lexer *lex, const char *begin) {
    advance(lex, begin);
    for (const char *at = begin; at < lex->end; at++) {
        const char *behind = has(at, lex->end, "{%") ? match_raw(at, lex->end, "endraw") : NULL;
        if (behind) {
            push_data(lex, at);
            advance(lex, behind);
            return;
        }
    }
    fail(lex, "a raw block has no end, \"{% endraw %}\" is expected");
}

/* ---- Within a tag. ---- */

static uint32_t read_code(lexer *lex, const char **at, const char *end, int digits, int base) {
    char text[12];
    int length = 0;
    while (length < digits && *at < end &&
           (base == 16 ? isxdigit((uint8_t)**at) : (**at >= '0' && **at <= '7')))
        text[length++] = *(*at)++;
    text[length] = 0;
    unsigned long code = strtoul(text, NULL, base);
    if ((base == 16 && length < digits) || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        fail(lex, "a string has an escape that is no character");
    return (uint32_t)code;
}

/* Behind a backslash. */
static void unescape(lexer *lex, jinja_builder *out, const char **at, const char *end) {
    static const char letters[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
    char escaped = *(*at)++;
    const char *found = escaped ? strchr(letters, escaped) : NULL;
    if (found) {
        jinja_builder_add_character(out, (uint8_t)bytes[found - letters], JINJA_OF_TEMPLATE);
    } else if (escaped == 'x' || escaped == 'u' || escaped == 'U') {
        int digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : 8;
        jinja_builder_add_character(out, read_code(lex, at, end, digits, 16), JINJA_OF_TEMPLATE);
    } else if (escaped >= '0' && escaped <= '7') {
        --*at;
        jinja_builder_add_character(out, read_code(lex, at, end, 3, 8), JINJA_OF_TEMPLATE);
    } else if (escaped == 'N') {
        fail(lex, "a string names a character by \"\\N\", which is not supported");
    } else if (escaped != '\n') {
        jinja_builder_add_literal(out, "\\");
        --*at;
        const char *begin = *at;
        lh_utf8_decode(at);
        jinja_builder_add(out, jinja_text_of(begin, (size_t)(*at - begin), JINJA_OF_TEMPLATE));
    }
}

static void take_string(lexer *lex) {
    char quote = *lex->at;
    const char *begin = lex->at + 1, *at = begin, *plain = begin;
    jinja_builder out = {.work = lex->work};
    while (at < lex->end && *at != quote) {
        if (*at++ != '\\')
            continue;
        if (at == lex->end)
            break;
        jinja_builder_add(&out, jinja_text_of(plain, (size_t)(at - 1 - plain), JINJA_OF_TEMPLATE));
        unescape(lex, &out, &at, lex->end);
        plain = at;
    }
    if (at == lex->end)
        fail(lex, "a string has no end");
    jinja_builder_add(&out, jinja_text_of(plain, (size_t)(at - plain), JINJA_OF_TEMPLATE));
    push(lex, JINJA_TOKEN_CONSTANT, begin - 1, at + 1);
    last(lex)->constant = jinja_string(lex->work, jinja_builder_text(&out));
    advance(lex, at + 1);
}

/* Digits, which may be grouped by single underscores. */
static const char *skip_digits(const char *at, const char *end) {
    const char *begin = at;
    while (at < end && (isdigit((uint8_t)*at) || (*at == '_' && at > begin && at + 1 < end &&
                                                  at[-1] != '_' && isdigit((uint8_t)at[1]))))
        at++;
    return at;
}

/* Behind a float that begins here, or NULL. */
static const char *match_float(const lexer *lex) {
    const char *at = skip_digits(lex->at, lex->end), *end = lex->end;
    bool follows_dot = lex->count && last((lexer *)lex)->sign == '.' &&
                       last((lexer *)lex)->text.bytes + 1 == lex->at;
    bool is_float = false;
    if (follows_dot)
        return NULL;
    if (end - at > 1 && *at == '.' && isdigit((uint8_t)at[1])) {
        at = skip_digits(at + 1, end);
        is_float = true;
    }
    if (end - at > 1 && (*at | 32) == 'e') {
        const char *digits = at + 1 + (at[1] == '+' || at[1] == '-');
        if (digits < end && isdigit((uint8_t)*digits)) {
            at = skip_digits(digits, end);
            is_float = true;
        }
    }
    return is_float ? at : NULL;
}

/* Digits of a base, with underscores in between; behind them. */
static const char *match_based(const char *at, const char *end, const char *digits) {
    while (at < end && (strchr(digits, tolower((uint8_t)*at)) || *at == '_') && *at)
        at++;
    return at;
}

static void copy_digits(char *text, size_t capacity, const char *begin, const char *end) {
    size_t length = 0;
    for (; begin < end && length + 1 < capacity; begin++)
        if (*begin != '_')
            text[length++] = *begin;
    text[length] = 0;
}

static void take_integer(lexer *lex) {
    static const struct {
        char letter;
        int base;
        const char *digits;
    } bases[] = {{'x', 16, "0123456789abcdef"}, {'o', 8, "01234567"}, {'b', 2, "01"}};
    const char *begin = lex->at, *end = NULL;
    char text[80];
    int base = 10;
    for (size_t i = 0; i < 3 && *begin == '0' && lex->end - begin > 2; i++)
        if ((begin[1] | 32) == bases[i].letter) {
            end = match_based(begin + 2, lex->end, bases[i].digits);
            base = bases[i].base;
        }
    if (!end || end == begin + 2) {
        base = 10;
        end = begin + 1;
        if (*begin == '0') /* no zeros in front of other digits */
            end += strspn(begin + 1, "0") < (size_t)(lex->end - begin - 1)
                       ? strspn(begin + 1, "0")
                       : (size_t)(lex->end - begin - 1);
        else
            end = skip_digits(begin, lex->end);
    }
    copy_digits(text, sizeof text, begin + (base == 10 ? 0 : 2), end);
    errno = 0;
    long long integer = strtoll(text, NULL, base);
    if (errno || end - begin > 70)
        fail(lex, "an integer has more than 64 bits");
    push(lex, JINJA_TOKEN_CONSTANT, begin, end);
    last(lex)->constant = jinja_int(integer);
    advance(lex, end);
}

static void take_number(lexer *lex) {
    const char *end = match_float(lex);
    char text[80];
    if (!end) {
        take_integer(lex);
        return;
    }
    copy_digits(text, sizeof text, lex->at, end);
    jinja_step(lex->work, FLOAT_STEPS);
    push(lex, JINJA_TOKEN_CONSTANT, lex->at, end);
    last(lex)->constant = jinja_float(strtod(text, NULL));
    advance(lex, end);
}

static bool take_name(lexer *lex) {
    const char *at = lex->at;
    while (at < lex->end) {
        const char *next = at;
        uint32_t code = lh_utf8_decode(&next);
        if (at == lex->at ? !jinja_is_name_start(code) : !jinja_is_name_part(code))
            break;
        at = next;
    }
    if (at == lex->at)
        return false;
    push(lex, JINJA_TOKEN_NAME, lex->at, at);
    advance(lex, at);
    return true;
}

static void balance(lexer *lex, char sign) {
    const char *opens = "([{", *closes = ")]}", *found;
    if (sign && (found = strchr(opens, sign))) {
        if (lex->depth == BRACKETS_MAX)
            fail(lex, "too many open brackets");
        lex->brackets[lex->depth++] = closes[found - opens];
    } else if (sign && strchr(closes, sign)) {
        if (lex->depth == 0 || lex->brackets[lex->depth - 1] != sign)
            jinja_fail(lex->work, LH_ERR_UNSUPPORTED, "unexpected '%c'", sign);
        lex->depth--;
    }
}

static void take_sign(lexer *lex) {
    static const struct {
        char text[3];
        int sign;
    } pairs[] = {{"//", JINJA_SIGN_FLOOR_DIVIDE}, {"**", JINJA_SIGN_POWER},
                 {"==", JINJA_SIGN_EQUAL},        {"!=", JINJA_SIGN_NOT_EQUAL},
                 {">=", JINJA_SIGN_AT_LEAST},     {"<=", JINJA_SIGN_AT_MOST}};
    int sign = 0, length = 2;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (has(lex->at, lex->end, pairs[i].text))
            sign = pairs[i].sign;
    if (!sign) {
        sign = (uint8_t)*lex->at;
        length = 1;
        if (!*lex->at || !strchr("+-/*%~[](){}><=.:|,;", *lex->at))
            fail(lex, "a character is not of an expression");
    }
    balance(lex, length == 1 ? *lex->at : 0);
    push(lex, JINJA_TOKEN_SIGN, lex->at, lex->at + length);
    last(lex)->sign = sign;
    advance(lex, lex->at + length);
}

static void take_tag(lexer *lex, bool is_variable) {
    const char *mark = is_variable ? "}}" : "%}", *begin = lex->at;
    bool is_signed = lex->end - begin > 2 && (begin[2] == '-' || begin[2] == '+');
    lex->depth = 0;
    push(lex, is_variable ? JINJA_TOKEN_VARIABLE_BEGIN : JINJA_TOKEN_BLOCK_BEGIN, begin, begin + 2);
    advance(lex, begin + 2 + is_signed);
    for (;;) {
        advance(lex, skip_space(lex->at, lex->end));
        const char *at = lex->at, *behind = NULL;
        if (at == lex->end)
            jinja_fail(lex->work, LH_ERR_UNSUPPORTED,
                       "the template ends within a tag, \"%s\" is expected", mark);
        if (lex->depth == 0 && (behind = match_end(at, lex->end, mark))) {
            push(lex, is_variable ? JINJA_TOKEN_VARIABLE_END : JINJA_TOKEN_BLOCK_END, at, at + 2);
            advance(lex, behind);
            return;
        }
        if (isdigit((uint8_t)*at))
            take_number(lex);
        else if (*at == '"' || *at == '\'')
            take_string(lex);
        else if (!take_name(lex))
            take_sign(lex);
    }
}

static const char *find_tag(const char *at, const char *end) {
    for (; end - at >= 2; at++)
        if (*at == '{' && (at[1] == '{' || at[1] == '%' || at[1] == '#'))
            return at;
    return NULL;
}

/* All kinds of line ends become line feeds; the last one goes. */
static jinja_text normalize(jinja_work *work, const char *bytes, size_t length) {
    char *copy = jinja_allocate(work, length + 1);
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\r') {
            copy[used++] = '\n';
            i += i + 1 < length && bytes[i + 1] == '\n';
        } else {
            copy[used++] = bytes[i];
        }
    }
    used -= used > 0 && copy[used - 1] == '\n';
    copy[used] = 0;
    return jinja_text_of(copy, used, JINJA_OF_TEMPLATE);
}

const jinja_token *jinja_tokenize(jinja_work *work, const char *bytes, size_t length) {
    if (length && lh_utf8_valid_prefix(bytes, length) < length)
        jinja_fail(work, LH_ERR_UNSUPPORTED, "it is not UTF-8");
    jinja_text text = normalize(work, bytes, length);
    lexer lex = {
        .work = work, .at = text.bytes, .end = text.bytes + text.length, .begins_line = true};
    work->line = 1;
    while (lex.at < lex.end) {
        const char *tag = find_tag(lex.at, lex.end);
        if (!tag) {
            push(&lex, JINJA_TOKEN_DATA, lex.at, lex.end);
            break;
        }
        const char *raw = tag[1] == '%' ? match_raw(tag, lex.end, "raw") : NULL;
        push_data(&lex, tag);
        if (raw)
            take_raw(&lex, raw);
        else if (tag[1] == '#')
            skip_comment(&lex);
        else
            take_tag(&lex, tag[1] == '{');
    }
    push(&lex, JINJA_TOKEN_END, lex.end, lex.end);
    return lex.tokens;
}
