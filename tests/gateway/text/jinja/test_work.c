/* Steps are charged so that a template that spends them in the worst way takes about as long as one
 * that spends them in the plainest: so a bound on steps is one on time. */
#include "gateway/text/jinja/work.h"

#include "gateway/text/jinja/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MEBIBYTE (1u << 20)
/* Seen: 2.6 times the plain loop's time; and up to 60 times where a charge was missing. */
#define TIMES_MAX 4

static double processor_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Until it is refused; the least of two tries. */
static double time_of(const char *text, size_t length) {
    static const struct tm day = {.tm_year = 126, .tm_mday = 1};
    double least = 1e9;
    for (int try = 0; try < 2; try++) {
        lh_jinja_template *jinja = NULL;
        lh_jinja_rendering made = {0};
        lh_error error = {0};
        double begin = processor_ms();
        lh_status status = lh_jinja_template_parse(text, length, &jinja, &error);
        if (!status)
            status = lh_jinja_template_render(jinja, NULL, 0, &day, &made, &error);
        double took = processor_ms() - begin;
        least = took < least ? took : least;
        lh_jinja_rendering_reset(&made);
        lh_jinja_template_destroy(jinja);
        if (status != LH_ERR_LIMIT)
            fail_msg("%.80s: %s", text, status ? error.message : "it was rendered");
    }
    return least;
}

static double time_of_loops(void) {
    static const char loops[] =
        "{% for a in range(99999) %}{% for b in range(99) %}{% if a == b %}{% endif %}"
        "{% endfor %}{% endfor %}";
    return time_of(loops, strlen(loops));
}

/* The worst of them beside the loops, in turns with which they are measured. */
typedef struct comparison {
    double worst_ms, worst_times;
} comparison;

static void compare(comparison *all, const char *text, size_t length) {
    double loops_ms = time_of_loops(), took_ms = time_of(text, length);
    all->worst_ms = took_ms > all->worst_ms ? took_ms : all->worst_ms;
    double times = took_ms / loops_ms;
    all->worst_times = times > all->worst_times ? times : all->worst_times;
    if (times > TIMES_MAX)
        fail_msg("%.80s takes %.1f ms, the loops %.1f ms", text, took_ms, loops_ms);
}

static void tell(const char *what, const comparison *all) {
    printf("%s: %.1f ms at most, %.1f times the loops' time\n", what, all->worst_ms,
           all->worst_times);
}

static void what_is_rendered_ends_in_time(void **state) {
    (void)state;
    static const char *const bodies[] = {
        /* Around each: a loop of 99,999 turns. */
        "{% set x = a + i %}",
        "{% set x = '%.300f' % 1e300 %}",
        "{% set x = '{:.300e}'.format(1e-300) %}",
        "{% set x = '%9999s' % i %}",
        "{% set x = 1e300 | round(300) %}",
        "{% set x = 1.2345678912345e-300 | string %}",
        "{% set x = '1.2345678912345678e-300' | float %}",
        "{% set x = 123456 | filesizeformat %}",
        "{% set x = strftime_now('%c%c%c%c%c%c%c%c') %}",
        "{% if nope %}{% endif %}",
        "{% if s == t %}{% endif %}",
        "{% if l == k %}{% endif %}",
        "{% if -1 in l %}{% endif %}",
        "{% if 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab' in s %}{% endif %}",
        "{% set x = s.count('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab') %}",
        "{% set x = s.rfind('b' ~ h) %}",
        "{% set x = s.find(h ~ 'b') %}",
        "{% set x = s | replace('', 'x') %}",
        "{% set x = s | replace('a', 'xy') %}",
        "{% set x = s.split('a') %}",
        "{% set x = w.split() %}",
        "{% set x = w.rsplit() %}",
        "{% set x = w | indent(4, true) %}",
        "{% set x = w | wordcount %}",
        "{% set x = u | upper %}",
        "{% set x = g | lower %}",
        "{% set x = u | length %}",
        "{% set x = u[40000] %}",
        "{% set x = u[1:-1] %}",
        "{% set x = u[::-1] %}",
        "{% set x = u | list %}",
        "{% set x = u | truncate(9999) %}",
        "{% set x = s.strip(h ~ 'bcdefghijklmnopqrstuvwxyz') %}",
        "{% set x = s | urlencode %}",
        "{% set x = ('<' * 50000) | e %}",
        "{% set x = ('\\n' * 50000) | tojson %}",
        "{% set x = u | tojson(ensure_ascii=true) %}",
        "{% set x = l | tojson(indent=4) %}",
        "{% set x = {'c': 1, 'b': 2, 'a': 3} | tojson(sort_keys=true) %}",
        "{% set x = l | string %}",
        "{% set x = [u] | string %}",
        "{% set x = range(99999) | join %}",
        "{% set x = l | join(h) %}",
        "{% set x = range(99999) | sort(reverse=true) %}",
        "{% set x = ([h ~ 1, h ~ 2] * 99) | sort %}",
        "{% set x = ([h ~ 1, h ~ 2] * 99) | min %}",
        "{% set x = range(99999) | map('string') | list %}",
        "{% set x = range(99999) | select('odd') | list %}",
        "{% set x = range(9999) | unique | list %}",
        "{% set x = ([{'a': h}] * 99) | groupby('a') %}",
        "{% set x = ([{'a': h}] * 99) | selectattr('a', 'equalto', h) | list %}",
        "{% set x = [{}] | map(attribute='a.a.a.a.a.a.a.a', default=1) | list %}",
        "{% set x = [1] | batch(99999, 'x') | list %}",
        "{% set x = {h: 1}[h] %}",
        "{% set x = '{a}{b}{c}'.format(a=1, b=2, c=3) %}",
        "{% set x = s * 2 %}",
        "{% set x = l + l %}",
        "{{ s }}",
    };
    comparison all = {0};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        char text[1024];
        int length = snprintf(
            text, sizeof text,
            "{%% set s = 'a' * 50000 %%}{%% set t = 'a' * 50000 %%}{%% set h = 'a' * 9000 %%}"
            "{%% set w = 'a\\n' * 20000 %%}{%% set u = '\u00E9' * 50000 %%}{%% set l = [1] * 9999 "
            "%%}"
            "{%% set k = [1] * 9999 %%}{%% set g = '\u03A3.' * 9000 %%}{%% set a = 1 %%}"
            "{%% for i in range(99999) %%}{%% for j in range(99) %%}%s{%% endfor %%}{%% endfor %%}",
            bodies[i]);
        assert_true(length > 0 && (size_t)length < sizeof text);
        compare(&all, text, (size_t)length);
    }
    tell("rendered", &all);
}

/* HEAD, so many pieces with their numbers, and TAIL. */
static char *repeat(const char *head, const char *piece, size_t count, const char *tail,
                    size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    fputs(head, out);
    for (size_t i = 0; i < count; i++) {
        for (const char *at = piece; *at; at++)
            if (*at == '#')
                fprintf(out, "%zu", i);
            else
                fputc(*at, out);
    }
    fputs(tail, out);
    fclose(out);
    return text;
}

static void many_names_are_looked_through_in_time(void **state) {
    (void)state;
    static const struct {
        const char *head, *piece, *tail;
    } cases[] = {
        {"", "{%set a#=1%}", "{% for i in range(99999) %}{% if nope %}{% endif %}{% endfor %}"},
        {"{% macro m() %}", "{%set a#=1%}",
         "{% endmacro %}{% for i in range(99999) %}{{ m() }}{% endfor %}"},
        {"{% macro m(", "a#=1,",
         "b=1) %}{% endmacro %}{% for i in range(99999) %}{{ m() }}{% endfor %}"},
        {"{% macro m() %}{{ kwargs | length }}{% endmacro %}{% set d = {", "'a#':1,",
         "} %}{% for i in range(999) %}{{ m(**d) }}{% endfor %}"},
        {"{% for i in range(99999) %}{{ ('{a2999}' * 3000).format(", "a#=1,",
         "b=1) }}{% endfor %}"},
        {"{% set n = namespace(", "a#=1,",
         "b=1) %}{% for i in range(99999) %}{% for j in range(99) %}{% set n.a2999 = n.a2998 %}"
         "{% endfor %}{% endfor %}"},
        {"{% set d = {", "'k#':1,",
         "} %}{% for i in range(999) %}{% set x = d | dictsort %}{% endfor %}"},
    };
    comparison all = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length;
        char *text = repeat(cases[i].head, cases[i].piece, 3000, cases[i].tail, &length);
        compare(&all, text, length);
        free(text);
    }
    tell("many names", &all);
}

static void what_is_parsed_ends_in_time(void **state) {
    (void)state;
    static const struct {
        const char *head, *piece, *tail;
    } cases[] = {
        {"", "{%if a%}{%endif%}", ""},
        {"", "{%set a=1%}", ""},
        {"", "{{a}}", ""},
        {"", "{%macro m()%}{%endmacro%}", ""},
        {"{{", "a+", "a}}"},
        {"{{", "-", "1}}"},
        {"{{", "'a'", "}}"},
        {"{{a", "()", "}}"},
        {"{{a", "[:]", "}}"},
        {"{{a", ".a", "}}"},
        {"{{a", "|e", "}}"},
        {"{{a", " if a else a", "}}"},
        {"{{[", "1.2345678912345678e-300,", "]}}"},
        {"{{ {", "1:1,", "} }}"},
        {"{%with ", "a=1,", "a=1%}{%endwith%}"},
        {"{%for ", "a,", "a in b%}{%endfor%}"},
        {"{%if a%}", "{%elif a%}", "{%endif%}"},
        {"{%macro m(", "a#=1,", "b=1)%}{%endmacro%}"},
        {"{{m(", "a#=1,", "b=1)}}"},
    };
    comparison all = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length, each = strlen(cases[i].piece) + (strchr(cases[i].piece, '#') ? 5 : 0);
        char *text =
            repeat(cases[i].head, cases[i].piece, (MEBIBYTE - 100) / each, cases[i].tail, &length);
        compare(&all, text, length);
        free(text);
    }
    tell("parsed", &all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_rendered_ends_in_time),
        cmocka_unit_test(many_names_are_looked_through_in_time),
        cmocka_unit_test(what_is_parsed_ends_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
