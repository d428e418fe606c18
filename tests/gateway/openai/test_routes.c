/* Paths and methods, read as they came. */
#include "gateway/openai/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void finds_routes(void **state) {
    (void)state;
    static const struct {
        const char *method, *path;
        unsigned status; /* 0: found */
        lh_openai_action action;
    } table[] = {
        {"GET", "/v1/models", 0, LH_OPENAI_LIST_MODELS},
        {"HEAD", "/models", 0, LH_OPENAI_LIST_MODELS},
        {"GET", "/v1/models/a/b", 0, LH_OPENAI_GET_MODEL},
        {"GET", "/models/a%2Fb", 0, LH_OPENAI_GET_MODEL},
        {"POST", "/v1/chat/completions", 0, LH_OPENAI_POST_CHAT},
        {"POST", "/chat/completions", 0, LH_OPENAI_POST_CHAT},
        {"POST", "/v1/completions", 0, LH_OPENAI_POST_COMPLETION},
        {"POST", "/completions", 0, LH_OPENAI_POST_COMPLETION},
        {"POST", "/tokenize", 0, LH_OPENAI_POST_TOKENIZE},
        {"POST", "/v1/detokenize", 0, LH_OPENAI_POST_DETOKENIZE},
        {"GET", "/tokenizer_info", 0, LH_OPENAI_GET_TOKENIZER},
        {"GET", "/tokenize", 405, 0},
        {"GET", "/health", 0, LH_OPENAI_GET_HEALTH},
        {"GET", "/readyz", 0, LH_OPENAI_GET_HEALTH},
        {"GET", "/livez", 0, LH_OPENAI_GET_LIFE},
        {"GET", "/version", 0, LH_OPENAI_GET_VERSION},
        {"GET", "/fleet", 0, LH_OPENAI_GET_FLEET},
        {"GET", "/fleet/map", 0, LH_OPENAI_GET_FLEET_MAP},
        {"OPTIONS", "/fleet", 0, LH_OPENAI_TELL_METHODS},
        {"OPTIONS", "*", 0, LH_OPENAI_TELL_METHODS},
        {"GET", "/api/version", 0, LH_OPENAI_OLLAMA_GET_VERSION},
        {"GET", "/api/tags", 0, LH_OPENAI_OLLAMA_LIST_MODELS},
        {"HEAD", "/api/ps", 0, LH_OPENAI_OLLAMA_LIST_RUNNING},
        {"POST", "/api/show", 0, LH_OPENAI_OLLAMA_POST_SHOW},
        {"POST", "/api/chat", 0, LH_OPENAI_OLLAMA_POST_CHAT},
        {"POST", "/api/generate", 0, LH_OPENAI_OLLAMA_POST_GENERATE},
        {"POST", "/api/embed", 0, LH_OPENAI_OLLAMA_POST_EMBED},
        {"POST", "/api/embeddings", 0, LH_OPENAI_OLLAMA_POST_EMBEDDINGS},
        {"POST", "/api/pull", 0, LH_OPENAI_OLLAMA_FETCH},
        {"DELETE", "/api/delete", 0, LH_OPENAI_OLLAMA_CHANGE},
        {"GET", "/api/chat", 405, 0},
        {"POST", "/v1/api/chat", 404, 0},
        {"GET", "/v1/health", 404, 0},
        {"GET", "/v1/v1/models", 404, 0},
        {"GET", "/V1/models", 404, 0},
        {"GET", "/v1/models?", 404, 0},
        {"GET", "//v1/models", 404, 0},
        {"GET", "/v1/./models", 404, 0},
        {"GET", "/v1/modelsx", 404, 0},
        {"GET", "/v1", 404, 0},
        {"GET", "/", 404, 0},
        {"GET", "", 404, 0},
        {"POST", "/v1/models", 405, 0},
        {"GET", "/v1/completions", 405, 0},
        {"get", "/v1/models", 405, 0},
        {"GE", "/v1/models", 405, 0},
        {"GET,", "/v1/models", 405, 0},
        {"", "/v1/models", 405, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        lh_openai_route route;
        lh_openai_error error = {0};
        bool found = lh_openai_route_find(table[i].method, table[i].path, false, &route, &error);
        if (found != (table[i].status == 0) || error.status != table[i].status)
            fail_msg("%s %s: %u", table[i].method, table[i].path, error.status);
        if (found)
            assert_int_equal(route.action, table[i].action);
        assert_non_null(route.name);
        if (error.status == 405)
            assert_non_null(strstr(route.methods, "OPTIONS"));
    }
}

static void gives_the_rest_of_the_path(void **state) {
    (void)state;
    lh_openai_route route;
    lh_openai_error error;
    assert_true(lh_openai_route_find("GET", "/v1/models/a%2Fb/c", false, &route, &error));
    assert_string_equal(route.rest, "a%2Fb/c");
    assert_false(route.is_public);
    assert_true(lh_openai_route_find("GET", "/livez", false, &route, &error));
    assert_true(route.is_public);
    assert_false(lh_openai_route_find("GET", "/v1/fleet", false, &route, &error));
    assert_true(lh_openai_route_find("GET", "/fleet", false, &route, &error));
    assert_true(route.is_admin && !route.is_public);
}

static void greets_at_ollamas_port_alone(void **state) {
    (void)state;
    lh_openai_route route;
    lh_openai_error error;
    assert_false(lh_openai_route_find("GET", "/", false, &route, &error));
    assert_false(route.is_ollama);
    assert_true(lh_openai_route_find("HEAD", "/", true, &route, &error));
    assert_true(route.is_public && route.is_ollama);
    assert_int_equal(route.action, LH_OPENAI_OLLAMA_GREET);
    assert_true(lh_openai_route_find("GET", "/v1/models", true, &route, &error));
    assert_false(route.is_ollama);
    assert_false(lh_openai_route_find("GET", "/nowhere", true, &route, &error));
    assert_true(route.is_ollama); /* so that the error is in its words */
}

static void decodes_ids(void **state) {
    (void)state;
    static const struct {
        const char *text, *decoded; /* NULL: malformed */
    } table[] = {{"a/b", "a/b"}, {"a%2fb%2F", "a/b/"}, {"%41", "A"},      {"", ""},
                 {"%", NULL},    {"%4", NULL},         {"%zz", NULL},     {"%00", NULL},
                 {"a+b", "a+b"}, {"%25%32", "%2"},     {"12345678", NULL}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char out[8];
        bool decoded = lh_openai_route_decode(table[i].text, out, sizeof out);
        assert_int_equal(decoded, table[i].decoded != NULL);
        if (decoded)
            assert_string_equal(out, table[i].decoded);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_routes),
        cmocka_unit_test(gives_the_rest_of_the_path),
        cmocka_unit_test(greets_at_ollamas_port_alone),
        cmocka_unit_test(decodes_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
