/* The worker's flags: what they need of each other, and what stands in where they are not given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/certificates.h"
#include "worker/defaults.h"
#include "worker/worker_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static lh_worker_settings settings;
static lh_error error;

static lh_status run(int argc, char **argv) {
    lh_option_action action;
    settings = (lh_worker_settings){0};
    lh_status status =
        lh_options_parse(&lh_worker_option_table, argc, argv, &settings, stdout, &action, &error);
    assert_int_equal(status, LH_OK);
    return lh_worker_settings_complete(&settings, &error);
}

#define RUN(...)                                                                                   \
    run((int)(sizeof((char *[]){"longhaul-worker", __VA_ARGS__}) / sizeof(char *)),                \
        (char *[]){"longhaul-worker", __VA_ARGS__, NULL})
#define ASSERT_REFUSED(part, ...)                                                                  \
    do {                                                                                           \
        assert_int_equal(RUN(__VA_ARGS__), LH_ERR_INVALID);                                        \
        if (!strstr(error.message, part))                                                          \
            fail_msg("\"%s\" lacks \"%s\"", error.message, part);                                  \
    } while (0)
#define TLS "--tls-cert", "a", "--tls-key", "b", "--tls-ca", "c"

static void what_is_not_given_is_filled_in(void **state) {
    (void)state;
    setenv("XDG_CACHE_HOME", "/some/cache", 1);
    assert_int_equal(RUN("--site", "here"), LH_OK);
    assert_true(lh_name_is_valid(settings.name));
    assert_string_equal(settings.listen, "127.0.0.1:7101");
    assert_string_equal(settings.gateway, "http://127.0.0.1:7100");
    assert_string_equal(settings.cache_dir, "/some/cache/longhaul");
    assert_true(settings.threads >= 1);
    assert_true(settings.memory_bytes > 1 << 20);
    assert_int_equal(RUN("--threads", "3", "--memory-bytes", "5M", "--cache-dir", "x"), LH_OK);
    assert_int_equal(settings.threads, 3);
    assert_int_equal(settings.memory_bytes, 5 << 20);
    assert_string_equal(settings.cache_dir, "x");
    setenv("CACHE_DIRECTORY", "/var/cache/a:/var/cache/b", 1);
    assert_int_equal(RUN("--site", "here"), LH_OK);
    assert_string_equal(settings.cache_dir, "/var/cache/a");
    unsetenv("CACHE_DIRECTORY");
}

static void memory_for_weights_is_what_is_free_beside_the_kv_cache(void **state) {
    (void)state;
    const int64_t mib = 1 << 20;
    assert_int_equal(lh_default_memory_of(16384 * mib, 16000 * mib, 512 * mib), 12288 * mib);
    assert_int_equal(lh_default_memory_of(16384 * mib, 1600 * mib, 512 * mib), 988 * mib);
    assert_int_equal(lh_default_memory_of(16384 * mib, 400 * mib, 512 * mib), mib);
    assert_int_equal(lh_default_memory_of(16384 * mib, -1, 512 * mib), 12288 * mib);
    assert_int_equal(lh_default_memory_of(-1, -1, 512 * mib), 1024 * mib);
}

static void workers_with_the_same_flags_have_numbers(void **state) {
    (void)state;
    char longest[64];
    memset(longest, 'n', 63);
    longest[63] = '\0';
    assert_int_equal(RUN("--name", "office"), LH_OK);
    lh_worker_settings_number_name(&settings, "office", 12);
    assert_string_equal(settings.name, "office-12");
    lh_worker_settings_number_name(&settings, longest, LH_STATE_SLOTS_MAX);
    assert_true(lh_name_is_valid(settings.name));
    assert_string_equal(settings.name + strlen(settings.name) - 3, "-64");
    settings.name = "";
    lh_worker_settings_number_name(&settings, "", 2);
    assert_string_equal(settings.name, "");
}

static void the_cache_folder_needs_a_home(void **state) {
    (void)state;
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/of/some one", 1);
    assert_int_equal(RUN("--site", "here"), LH_OK);
    assert_string_equal(settings.cache_dir, "/home/of/some one/.cache/longhaul");
    char deep[1100];
    memset(deep, 'd', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    setenv("HOME", deep, 1);
    ASSERT_REFUSED("--cache-dir", "--site", "here");
    unsetenv("HOME");
    ASSERT_REFUSED("HOME is not set", "--site", "here");
    assert_int_equal(RUN("--cache-dir", "x"), LH_OK);
    setenv("HOME", "/root", 1);
}

static void names_are_checked(void **state) {
    (void)state;
    char longest[64], longer[65];
    memset(longest, 'n', sizeof longest);
    memset(longer, 'n', sizeof longer);
    longest[63] = longer[64] = '\0';
    assert_int_equal(RUN("--name", longest), LH_OK);
    assert_string_equal(settings.name, longest);
    ASSERT_REFUSED("--name", "--name", longer);
    ASSERT_REFUSED("--name: 'a b'", "--name", "a b");
    ASSERT_REFUSED("--name", "--name", "a/b");
    assert_int_equal(RUN("--site="), LH_OK);
    assert_string_equal(settings.site, "default");
    ASSERT_REFUSED("--site", "--site", "a\nb");
}

/* It says who the worker is; flags may say the same. */
static void names_come_from_the_certificate(void **state) {
    (void)state;
    const lh_tls_identity identity = {.kind = LH_TLS_WORKER, .name = "attic", .site = "home"};
    assert_int_equal(RUN(TLS), LH_OK);
    assert_int_equal(lh_worker_settings_take_identity(&settings, &identity, &error), LH_OK);
    assert_string_equal(settings.name, "attic");
    assert_string_equal(settings.site, "home");
    assert_int_equal(RUN(TLS, "--name", "attic", "--site", "home"), LH_OK);
    assert_int_equal(lh_worker_settings_take_identity(&settings, &identity, &error), LH_OK);
    assert_int_equal(RUN(TLS, "--name", "cellar"), LH_OK);
    assert_int_equal(lh_worker_settings_take_identity(&settings, &identity, &error),
                     LH_ERR_INVALID);
    assert_string_equal(error.message,
                        "--name: 'cellar' is not what the certificate of --tls-cert says, which is "
                        "'attic': leave the flag out, or have a certificate issued for it");
    assert_int_equal(RUN(TLS, "--site", "office"), LH_OK);
    assert_int_equal(lh_worker_settings_take_identity(&settings, &identity, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--site: 'office' is not"));
    ASSERT_REFUSED("--name: 'a b'", TLS, "--name", "a b");
}

static void the_gateway_is_a_url(void **state) {
    (void)state;
    assert_int_equal(RUN("--gateway", "http://localhost:80/"), LH_OK);
    assert_string_equal(settings.gateway, "http://localhost:80");
    assert_int_equal(RUN("--gateway", "http://[::1]:80"), LH_OK);
    ASSERT_REFUSED("neither http:// nor https://", "--gateway", "localhost:80");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://localhost");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://localhost:0");
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", "http://localhost:80/fleet");
    char endless[LH_CONTROL_URL_BYTES + 32];
    memset(endless, '1', sizeof endless);
    memcpy(endless, "http://", 7);
    memcpy(endless + sizeof endless - 4, ":80", 4);
    ASSERT_REFUSED("SCHEME://HOST:PORT", "--gateway", endless);
    ASSERT_REFUSED("longhaul-worker join", "--gateway", "https://localhost:80");
    assert_int_equal(RUN("--gateway", "https://example.org:80", TLS), LH_OK);
}

static void tls_needs_all_three(void **state) {
    (void)state;
    ASSERT_REFUSED("all three", "--tls-cert", "a", "--tls-key", "b");
    ASSERT_REFUSED("all three", "--tls-ca", "c");
    ASSERT_REFUSED("--listen-tls needs", "--listen-tls", "0.0.0.0:1");
    assert_int_equal(RUN("--listen-tls", "0.0.0.0:1", TLS), LH_OK);
    assert_string_equal(settings.listen, ""); /* nothing in the clear unless it is asked for */
    assert_true(lh_program_options_have_tls(&settings.program));
    assert_string_equal(settings.program.tls.ca_file, "c");
}

static void plaintext_beyond_loopback_needs_a_word(void **state) {
    (void)state;
    ASSERT_REFUSED("--insecure-plaintext", "--listen", "0.0.0.0:1");
    ASSERT_REFUSED("--insecure-plaintext", "--listen", "127.0.0.1.example.org:1");
    ASSERT_REFUSED("--insecure-plaintext", "--gateway", "http://127.example.org:1");
    ASSERT_REFUSED("--insecure-plaintext", "--gateway", "http://10.0.0.1:1", TLS);
    ASSERT_REFUSED("address \"nonsense\"", "--listen", "nonsense");
    assert_int_equal(RUN("--listen", "0.0.0.0:1", "--insecure-plaintext"), LH_OK);
    assert_int_equal(RUN("--gateway", "http://10.0.0.1:1", "--insecure-plaintext"), LH_OK);
    assert_int_equal(RUN("--listen", "127.3.2.1:0"), LH_OK);
}

static void a_slowdown_is_read(void **state) {
    (void)state;
    assert_int_equal(RUN("--slowdown", "2.5,4"), LH_OK);
    assert_true(settings.slowdown_factors[0] == 2.5 && settings.slowdown_factors[1] == 4);
    ASSERT_REFUSED("--slowdown", "--slowdown", "fast");
}

static void others_are_told_how_to_reach_it(void **state) {
    (void)state;
    char text[LH_ADDRESS_BYTES];
    assert_int_equal(RUN("--listen", "127.0.0.1:0", "--listen-tls", "[::1]:5", TLS), LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, false, 4711, text, &error), LH_OK);
    assert_string_equal(text, "127.0.0.1:4711");
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "[::1]:5");

    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", TLS), LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, false, 0, text, &error), LH_OK);
    assert_string_equal(text, "");
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "--advertise-tls: nobody can connect to '0.0.0.0'"));

    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", "--advertise-tls", "office.example:443", TLS),
                     LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "office.example:443");
    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", "--advertise-tls", "office.example:0", TLS),
                     LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "office.example:5");
    assert_int_equal(RUN("--listen-tls", "0.0.0.0:5", "--advertise-tls", "office", TLS), LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error),
                     LH_ERR_INVALID);
}

/* ---- Members ---- */

static char folder[64], state_folder[80];
static lh_fleet_member *member;

static void read_text(const char *path, char *text, size_t capacity) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
}

/* As joining leaves it, for worker attic on site home. */
static int make_member(void **state) {
    (void)state;
    static lh_own_membership set;
    authority ca;
    lh_membership_store *store;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "CA", NULL, 30);
    authority_issue(&ca, "worker", "ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    lh_tls_options files = authority_options(&ca, "worker", "ca");
    set = (lh_own_membership){.gateway_url = "https://127.0.0.1:7100",
                              .name = "attic",
                              .site = "home",
                              .token = "0123456789abcdef",
                              .observed = "127.0.0.1"};
    read_text(files.certificate_file, set.certificate, sizeof set.certificate);
    read_text(files.key_file, set.key, sizeof set.key);
    read_text(files.ca_file, set.trust, sizeof set.trust);
    authority_close(&ca);
    strcpy(folder, "/tmp/longhaul-settings-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(state_folder, sizeof state_folder, "%s/state", folder);
    assert_int_equal(lh_membership_store_open(state_folder, &store, NULL), LH_OK);
    assert_int_equal(lh_membership_store_save(store, &set, NULL), LH_OK);
    lh_membership_store_close(store);
    return lh_fleet_member_open(state_folder, NULL, &member, &error) == LH_OK ? 0 : 1;
}

static void note_closed(void *context) {
    *(bool *)context = true;
}

static int remove_member(void **state) {
    (void)state;
    bool is_closed = false;
    char command[128];
    lh_fleet_member_close(member, note_closed, &is_closed);
    assert_true(is_closed);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static lh_status adopt(int argc, char **argv) {
    lh_option_action action;
    settings = (lh_worker_settings){0};
    assert_int_equal(
        lh_options_parse(&lh_worker_option_table, argc, argv, &settings, stdout, &action, &error),
        LH_OK);
    lh_status status = lh_worker_settings_adopt(&settings, member, &error);
    return status == LH_OK ? lh_worker_settings_complete(&settings, &error) : status;
}

#define ADOPT(...)                                                                                 \
    adopt((int)(sizeof((char *[]){"longhaul-worker", __VA_ARGS__}) / sizeof(char *)),              \
          (char *[]){"longhaul-worker", __VA_ARGS__, NULL})

static void a_member_needs_no_flags(void **state) {
    (void)state;
    char text[LH_ADDRESS_BYTES];
    assert_int_equal(ADOPT("--threads", "1"), LH_OK);
    assert_string_equal(settings.name, "attic");
    assert_string_equal(settings.site, "home");
    assert_string_equal(settings.gateway, "https://127.0.0.1:7100");
    assert_string_equal(settings.listen, "");
    assert_string_equal(settings.listen_tls, "0.0.0.0:7101");
    assert_true(lh_program_options_have_tls(&settings.program));
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 7101, text, &error), LH_OK);
    assert_string_equal(text, "127.0.0.1:7101"); /* the one that faces the gateway */
}

static void what_a_member_is_given_counts(void **state) {
    (void)state;
    char text[LH_ADDRESS_BYTES];
    assert_int_equal(ADOPT("--name", "attic", "--site", "home", "--listen-tls", "127.0.0.2:5",
                           "--gateway", "https://gate.example:9"),
                     LH_OK);
    assert_string_equal(settings.gateway, "https://gate.example:9");
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "127.0.0.2:5");
    assert_int_equal(ADOPT("--advertise-tls", "office.example:443"), LH_OK);
    assert_int_equal(lh_worker_settings_advertise(&settings, true, 5, text, &error), LH_OK);
    assert_string_equal(text, "office.example:443");
}

static void a_member_is_who_its_certificate_says(void **state) {
    (void)state;
    assert_int_equal(ADOPT("--name", "cellar"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "has joined as name attic"));
    assert_int_equal(ADOPT("--site", "office"), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "has joined as site home"));
}

static void flags_may_ask_for_no_membership(void **state) {
    (void)state;
    assert_int_equal(RUN("--gateway", "http://127.0.0.1:7100"), LH_OK);
    assert_false(lh_worker_settings_may_be_member(&settings));
    assert_int_equal(RUN("--gateway", "https://127.0.0.1:7100", TLS), LH_OK);
    assert_false(lh_worker_settings_may_be_member(&settings));
    lh_worker_settings plain = {.gateway = "", .program.tls.certificate_file = ""};
    assert_true(lh_worker_settings_may_be_member(&plain));
}

static void the_token_is_wiped_from_the_arguments(void **state) {
    (void)state;
    char token[] = "lh1.abc",
         *words[] = {"longhaul-worker", "join", "https://h:1", token, "--name", "a", NULL},
         **argv = words;
    int argc = 6;
    settings = (lh_worker_settings){0};
    assert_true(lh_worker_settings_take_join(&settings, &argc, &argv));
    assert_string_equal(settings.join_url, "https://h:1");
    assert_string_equal(settings.join_token, "lh1.abc");
    assert_string_equal(token, "*******");
    assert_int_equal(argc, 3);
    assert_string_equal(argv[1], "--name");
    char *without[] = {"longhaul-worker", "join", "--help", NULL};
    argv = without;
    argc = 3;
    assert_true(lh_worker_settings_take_join(&settings, &argc, &argv));
    assert_string_equal(settings.join_url, "");
    assert_string_equal(argv[1], "--help");
    argv = words + 3;
    argc = 1;
    assert_false(lh_worker_settings_take_join(&settings, &argc, &argv));
}

/* What a --join-file with that text comes to. */
static lh_status read_join_file(const char *text) {
    static char path[] = "/tmp/longhaul-join-file";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
    settings = (lh_worker_settings){.join_url = "", .join_file = path};
    lh_status status = lh_worker_settings_read_join_file(&settings, &error);
    unlink(path);
    return status;
}

static void a_file_says_where_to_join(void **state) {
    (void)state;
    static const char *const lines[] = {"https://h:1 lh1.abc", "\n https://h:1  lh1.abc \n",
                                        "longhaul-worker join https://h:1 lh1.abc\r\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(read_join_file(lines[i]), LH_OK);
        assert_string_equal(settings.join_url, "https://h:1");
        assert_string_equal(settings.join_token, "lh1.abc");
    }
}

static void without_a_line_nobody_joins(void **state) {
    (void)state;
    assert_int_equal(read_join_file(""), LH_OK);
    assert_string_equal(settings.join_url, "");
    assert_int_equal(read_join_file(" \n\n"), LH_OK);
    assert_string_equal(settings.join_url, "");
    settings = (lh_worker_settings){.join_url = "", .join_file = "/nonexistent/join"};
    assert_int_equal(lh_worker_settings_read_join_file(&settings, &error), LH_OK);
    settings = (lh_worker_settings){.join_url = "https://pasted:1", .join_file = "/dev/full"};
    assert_int_equal(lh_worker_settings_read_join_file(&settings, &error), LH_OK);
    assert_string_equal(settings.join_url, "https://pasted:1");
}

static void a_file_of_something_else_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"https://h:1", "lh1.abc", "http://h:1 lh1.abc",
                                        "https://h:1 lh1.abc --name x"};
    char long_line[4096];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(read_join_file(lines[i]), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "longhaul-gateway token"));
    }
    memset(long_line, 'x', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    assert_int_equal(read_join_file(long_line), LH_ERR_LIMIT);
    memcpy(long_line, "https://h:1 ", 12);
    long_line[1000] = '\0';
    assert_int_equal(read_join_file(long_line), LH_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_says_where_to_join),
        cmocka_unit_test(without_a_line_nobody_joins),
        cmocka_unit_test(a_file_of_something_else_is_refused),
        cmocka_unit_test(what_is_not_given_is_filled_in),
        cmocka_unit_test(memory_for_weights_is_what_is_free_beside_the_kv_cache),
        cmocka_unit_test(workers_with_the_same_flags_have_numbers),
        cmocka_unit_test(the_cache_folder_needs_a_home),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(names_come_from_the_certificate),
        cmocka_unit_test(the_gateway_is_a_url),
        cmocka_unit_test(tls_needs_all_three),
        cmocka_unit_test(plaintext_beyond_loopback_needs_a_word),
        cmocka_unit_test(a_slowdown_is_read),
        cmocka_unit_test(others_are_told_how_to_reach_it),
        cmocka_unit_test_setup_teardown(a_member_needs_no_flags, make_member, remove_member),
        cmocka_unit_test_setup_teardown(what_a_member_is_given_counts, make_member, remove_member),
        cmocka_unit_test_setup_teardown(a_member_is_who_its_certificate_says, make_member,
                                        remove_member),
        cmocka_unit_test(flags_may_ask_for_no_membership),
        cmocka_unit_test(the_token_is_wiped_from_the_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
