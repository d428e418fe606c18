/* What may be pulled, and under which names it may be kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/models/hub.h"
#include "gateway/models/model_reference.h"

#include <string.h>

static void hub_references(void **state) {
    (void)state;
    lh_model_reference r;
    assert_int_equal(lh_model_reference_parse("hf:a-b/c.d_e", &r, NULL), LH_OK);
    assert_true(r.is_hub);
    assert_string_equal(r.owner, "a-b");
    assert_string_equal(r.repository, "c.d_e");
    assert_string_equal(r.quantization, "");
    assert_int_equal(lh_model_reference_parse("hf:a/b:Q4_K_M", &r, NULL), LH_OK);
    assert_string_equal(r.quantization, "Q4_K_M");
    assert_int_equal(lh_model_reference_parse("https://x/y.gguf", &r, NULL), LH_OK);
    assert_false(r.is_hub);
    static const char *const bad[] = {"hf:",      "hf:a",     "hf:a/",          "hf:/b",
                                      "hf:a/b:",  "hf:a/b/c", "hf:../b",        "hf:a/b:x/y",
                                      "hf:a/b c", "x.gguf",   "ftp://x/y.gguf", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(lh_model_reference_parse(bad[i], &r, NULL), LH_ERR_INVALID);
}

static void names_of_urls(void **state) {
    (void)state;
    static const struct {
        const char *url, *name; /* NULL: none that may be kept */
    } cases[] = {{"https://h/a/b.gguf?download=true#x", "b.gguf"},
                 {"http://h:8/b.gguf", "b.gguf"},
                 {"https://h.gguf", NULL},
                 {"https://h/b.bin", NULL},
                 {"https://h/.gguf", NULL},
                 {"https://h/.b.gguf", NULL},
                 {"https://h/b\".gguf", NULL},
                 {"https://h/a.gguf/", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[LH_MODEL_NAME_BYTES];
        lh_status status = lh_model_name_of_url(cases[i].url, name, NULL);
        assert_int_equal(status, cases[i].name ? LH_OK : LH_ERR_INVALID);
        if (cases[i].name)
            assert_string_equal(name, cases[i].name);
    }
    char url[LH_MODEL_URL_BYTES];
    assert_int_equal(lh_model_url_beside("https://h/a/b.gguf?t=1", "c.gguf", url, NULL), LH_OK);
    assert_string_equal(url, "https://h/a/c.gguf?t=1");
}

static void a_token_is_not_sent_in_the_clear(void **state) {
    (void)state;
    static const struct {
        const char *url;
        lh_status with_token, without;
    } cases[] = {{"https://hub.example", LH_OK, LH_OK},
                 {"http://hub.example", LH_ERR_INVALID, LH_OK},
                 {"http://127.0.0.1:8", LH_OK, LH_OK},
                 {"http://localhost/x", LH_OK, LH_OK},
                 {"http://[::1]:8/", LH_OK, LH_OK},
                 {"http://127.0.0.1.example", LH_ERR_INVALID, LH_OK},
                 {"http://localhost.example", LH_ERR_INVALID, LH_OK},
                 {"http://127.0.0.1@hub.example", LH_ERR_INVALID, LH_OK},
                 {"http://localhost:x@hub.example", LH_ERR_INVALID, LH_OK},
                 {"hub.example", LH_ERR_INVALID, LH_ERR_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_hub hub = {.url = cases[i].url, .token = "t"};
        assert_int_equal(lh_hub_check(&hub, NULL), cases[i].with_token);
        hub.token = "";
        assert_int_equal(lh_hub_check(&hub, NULL), cases[i].without);
    }
}

static void a_files_url_is_escaped(void **state) {
    (void)state;
    char url[LH_MODEL_URL_BYTES];
    lh_hub hub = {.url = "https://hub.example/", .token = ""};
    lh_model_reference r;
    assert_int_equal(lh_model_reference_parse("hf:a/b", &r, NULL), LH_OK);
    assert_int_equal(lh_hub_file_url(&hub, &r, "sub/m x?#%.gguf", url, NULL), LH_OK);
    assert_string_equal(url, "https://hub.example/a/b/resolve/main/sub/m%20x%3F%23%25.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hub_references),
        cmocka_unit_test(names_of_urls),
        cmocka_unit_test(a_token_is_not_sent_in_the_clear),
        cmocka_unit_test(a_files_url_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
