/* What a hub lists, and which of it is meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/models/hub_listing_json.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>
#include <string.h>

#define SHA256 "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static void add(lh_hub_listing *listing, const char *path) {
    char page[512];
    snprintf(page, sizeof page,
             "[{\"type\": \"file\", \"path\": \"%s\", \"size\": 5, \"lfs\": {\"oid\": \"" SHA256
             "\", \"size\": 5}}]",
             path);
    assert_int_equal(lh_hub_listing_parse(page, strlen(page), listing, NULL), LH_OK);
}

static lh_hub_listing list_of(const char *const *paths) {
    lh_hub_listing listing = {0};
    for (; *paths; paths++)
        add(&listing, *paths);
    return listing;
}

static void expect_pick(const lh_hub_listing *listing, const char *quantization, const char *path) {
    lh_hub_model model;
    lh_error error = {.message = ""};
    if (lh_hub_listing_pick(listing, quantization, &model, &error) != LH_OK)
        fail_msg("%s: %s", quantization, error.message);
    assert_string_equal(model.files[0]->path, path);
}

static void expect_refusal(const lh_hub_listing *listing, const char *quantization,
                           lh_status wanted, const char *words) {
    lh_hub_model model;
    lh_error error;
    assert_int_equal(lh_hub_listing_pick(listing, quantization, &model, &error), wanted);
    if (!strstr(error.message, words))
        fail_msg("'%s' is not in '%s'", words, error.message);
}

static void a_page_gives_the_models_alone(void **state) {
    (void)state;
    static const char page[] =
        "[{\"type\": \"directory\", \"path\": \"a.gguf\", \"size\": 0},"
        " {\"type\": \"file\", \"path\": \"README.md\", \"size\": 9},"
        " {\"type\": \"file\", \"path\": \"mmproj-F16.gguf\", \"size\": 9},"
        " {\"type\": \"file\", \"path\": \"../../etc/x.gguf\", \"size\": 9},"
        " {\"type\": \"file\", \"path\": \"/x.gguf\", \"size\": 9},"
        " {\"type\": \"file\", \"path\": \"a\\u0007.gguf\", \"size\": 9},"
        " {\"type\": \"file\", \"path\": \".hidden.gguf\", \"size\": 9},"
        " {\"type\": \"file\", \"path\": \"none.gguf\", \"size\": 0},"
        " {\"type\": \"file\", \"path\": \"text.gguf\", \"size\": \"9\"},"
        " 7, {\"type\": \"file\", \"path\": \"sub/m-Q8_0.gguf\", \"size\": 9, \"lfs\": {\"oid\": "
        "\"" SHA256 "\"}},"
        " {\"type\": \"file\", \"path\": \"plain.gguf\", \"size\": 1099511627776}]";
    lh_hub_listing listing = {0};
    assert_int_equal(lh_hub_listing_parse(page, sizeof page - 1, &listing, NULL), LH_OK);
    assert_int_equal(listing.count, 2);
    assert_string_equal(listing.files[0].path, "sub/m-Q8_0.gguf");
    assert_true(listing.files[0].has_sha256);
    assert_int_equal(listing.files[0].sha256[0], 0x9f);
    assert_int_equal(listing.files[1].bytes, (uint64_t)1 << 40);
    assert_false(listing.files[1].has_sha256);
    lh_hub_listing_reset(&listing);
}

static void what_is_no_list_is_refused(void **state) {
    (void)state;
    static const char *const pages[] = {
        "", "{}", "[", "null", "[]]", "{\"error\": \"no\"}", "[], \"files\": []"};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        lh_hub_listing listing = {0};
        lh_error error = {.message = ""};
        assert_int_equal(lh_hub_listing_parse(pages[i], strlen(pages[i]), &listing, &error),
                         LH_ERR_MALFORMED);
        assert_non_null(strstr(error.message, "the hub's list"));
        lh_hub_listing_reset(&listing);
    }
}

static void a_quantization_is_a_word_of_the_name(void **state) {
    (void)state;
    static const char *const paths[] = {"m-Q4_K_M.gguf", "m-Q4_K_S.gguf",   "m_Q5_0.gguf",
                                        "m.Q8_0.gguf",   "BF16/m-big.gguf", "m-UD-Q2_K.gguf",
                                        "m-Q2_K_L.gguf", "m-IQ4_NL-x.gguf", NULL};
    lh_hub_listing listing = list_of(paths);
    expect_pick(&listing, "", "m-Q4_K_M.gguf");
    expect_pick(&listing, "q4_k_s", "m-Q4_K_S.gguf");
    expect_pick(&listing, "Q5_0", "m_Q5_0.gguf");
    expect_pick(&listing, "Q8_0", "m.Q8_0.gguf");
    expect_pick(&listing, "BF16", "BF16/m-big.gguf");
    expect_pick(&listing, "Q2_K", "m-UD-Q2_K.gguf");
    expect_pick(&listing, "IQ4_NL", "m-IQ4_NL-x.gguf");
    expect_pick(&listing, "m-Q4_K_S.gguf", "m-Q4_K_S.gguf");
    expect_refusal(&listing, "Q4_K", LH_ERR_NOT_FOUND, "there is no Q4_K; there are: m-Q4_K_M");
    expect_refusal(&listing, "4_K_M", LH_ERR_NOT_FOUND, "there is no 4_K_M");
    lh_hub_listing_reset(&listing);
}

static void one_model_needs_no_word_and_several_do(void **state) {
    (void)state;
    static const char *const one[] = {"m-Q8_0.gguf", NULL}, *const two[] = {"m-Q8_0.gguf",
                                                                            "n-Q8_0.gguf", NULL};
    lh_hub_listing listing = list_of(one);
    expect_pick(&listing, "", "m-Q8_0.gguf");
    lh_hub_listing_reset(&listing);
    listing = list_of(two);
    expect_refusal(&listing, "", LH_ERR_INVALID, "which of them?");
    expect_refusal(&listing, "Q8_0", LH_ERR_INVALID, "m-Q8_0.gguf, n-Q8_0.gguf");
    lh_hub_listing_reset(&listing);
    expect_refusal(&listing, "", LH_ERR_NOT_FOUND, "has no GGUF model");
}

static void all_parts_of_a_model_are_picked_in_order(void **state) {
    (void)state;
    static const char *const paths[] = {
        "Q8_0/m-00002-of-00003.gguf", "Q8_0/m-00001-of-00003.gguf", "m-Q4_0.gguf",
        "Q8_0/m-00003-of-00003.gguf", "m-F16-00001-of-00002.gguf",  NULL};
    lh_hub_listing listing = list_of(paths);
    lh_hub_model model;
    assert_int_equal(lh_hub_listing_pick(&listing, "Q8_0", &model, NULL), LH_OK);
    assert_int_equal(model.count, 3);
    assert_string_equal(model.files[0]->path, paths[1]);
    assert_string_equal(model.files[1]->path, paths[0]);
    assert_string_equal(model.files[2]->path, paths[3]);
    expect_refusal(&listing, "F16", LH_ERR_MALFORMED, "does not list part 2 of 2");
    lh_hub_listing_reset(&listing);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const char page[] = "[{\"type\": \"file\", \"path\": \"a.gguf\", \"size\": 5}]";
    for (size_t n = 1;; n++) {
        lh_hub_listing listing = {0};
        failing_malloc_arm(n);
        lh_status status = lh_hub_listing_parse(page, sizeof page - 1, &listing, NULL);
        bool has_failed = failing_malloc_disarm();
        lh_hub_listing_reset(&listing);
        if (!has_failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_gives_the_models_alone),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(a_quantization_is_a_word_of_the_name),
        cmocka_unit_test(one_model_needs_no_word_and_several_do),
        cmocka_unit_test(all_parts_of_a_model_are_picked_in_order),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
