/* Certificates that are replaced while connections are open. */
#include "common/net/tls_channel.h"

#include "tests/support/certificates.h"

#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#undef lh_error /* openssl/lhash.h */

static authority ca;

static int make_certificates(void **state) {
    (void)state;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "client", "ca", "?", "URI:longhaul://gateway", 30);
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    authority_close(&ca);
    return 0;
}

static lh_tls_context *open_context(lh_tls_role role, lh_tls_options options) {
    lh_tls_context *context;
    lh_error error;
    options = lh_tls_options_for(&options, "attic");
    assert_int_equal(lh_tls_context_create(role, &options, &context, &error), LH_OK);
    return context;
}

typedef struct pair {
    lh_tls_channel *client, *server;
} pair;

static void carry(lh_tls_channel *from, lh_tls_channel *to, bool *moved) {
    uint8_t bytes[8192];
    lh_error error;
    size_t length = lh_tls_channel_take(from, bytes, sizeof bytes);
    *moved |= length > 0;
    assert_int_equal(lh_tls_channel_receive(to, bytes, length, &error), LH_OK);
}

static pair connect_pair(lh_tls_context *client, lh_tls_context *server) {
    pair p;
    lh_error error;
    assert_int_equal(lh_tls_channel_create(client, "localhost", &p.client, &error), LH_OK);
    assert_int_equal(lh_tls_channel_create(server, NULL, &p.server, &error), LH_OK);
    bool moved;
    do {
        moved = false;
        carry(p.client, p.server, &moved);
        carry(p.server, p.client, &moved);
    } while (moved);
    assert_true(lh_tls_channel_is_open(p.client) && lh_tls_channel_is_open(p.server));
    return p;
}

static void say(const pair *p, const char *text) {
    uint8_t bytes[64];
    size_t length;
    lh_error error;
    bool moved = false;
    assert_int_equal(lh_tls_channel_write(p->server, (const uint8_t *)text, strlen(text), &error),
                     LH_OK);
    carry(p->server, p->client, &moved);
    assert_int_equal(lh_tls_channel_read(p->client, bytes, sizeof bytes, &length, &error), LH_OK);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(bytes, text, length);
}

static void close_pair(pair p) {
    lh_tls_channel_destroy(p.client);
    lh_tls_channel_destroy(p.server);
}

/* "server" again, at another site, so that who sees it knows which one it is. */
static void replace_server(const char *site) {
    char names[160];
    snprintf(names, sizeof names, "URI:longhaul://worker/attic?site=%s", site);
    authority_issue(&ca, "server", "ca", "?", names, 30);
}

static const char *site_of_peer(const lh_tls_channel *channel) {
    return lh_tls_channel_peer_identity(channel)->site;
}

static void damage(const char *path) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("-----BEGIN nothing\n", file);
    fclose(file);
}

static lh_tls_credentials *read_credentials(lh_tls_options *files) {
    lh_error error;
    lh_tls_credentials *credentials;
    assert_int_equal(lh_tls_credentials_create(files, &credentials, &error), LH_OK);
    files->credentials = credentials;
    return credentials;
}

static void new_connections_use_what_was_read_again(void **state) {
    (void)state;
    lh_error error;
    replace_server("first");
    lh_tls_options files = authority_options(&ca, "server", "ca");
    lh_tls_credentials *credentials = read_credentials(&files);
    lh_tls_context *server = open_context(LH_TLS_SERVER, files),
                   *client = open_context(LH_TLS_CLIENT, authority_options(&ca, "client", "ca"));
    pair first = connect_pair(client, server);
    assert_string_equal(site_of_peer(first.client), "first");

    replace_server("second");
    pair unasked = connect_pair(client, server);
    assert_string_equal(site_of_peer(unasked.client), "first");
    assert_int_equal(lh_tls_credentials_reload(credentials, &error), LH_OK);
    pair second = connect_pair(client, server);
    assert_string_equal(site_of_peer(second.client), "second");
    say(&first, "the first one lives on");
    say(&second, "beside the second one");

    lh_tls_context_destroy(server);
    lh_tls_context_destroy(client);
    lh_tls_credentials_destroy(credentials);
    say(&first, "and needs nothing but itself");
    close_pair(first);
    close_pair(unasked);
    close_pair(second);
}

/* A client's, too. */
static void clients_show_what_was_read_again(void **state) {
    (void)state;
    lh_error error;
    replace_server("first");
    lh_tls_options files = authority_options(&ca, "server", "ca");
    lh_tls_context *server = open_context(LH_TLS_SERVER, files);
    lh_tls_credentials *credentials = read_credentials(&files);
    lh_tls_context *client = open_context(LH_TLS_CLIENT, files);
    replace_server("second");
    assert_int_equal(lh_tls_credentials_reload(credentials, &error), LH_OK);
    pair p = connect_pair(client, server);
    assert_string_equal(site_of_peer(p.client), "first");
    assert_string_equal(site_of_peer(p.server), "second");
    close_pair(p);
    lh_tls_context_destroy(server);
    lh_tls_context_destroy(client);
    lh_tls_credentials_destroy(credentials);
}

static void what_is_wrong_leaves_it_as_it_was(void **state) {
    (void)state;
    lh_error error;
    replace_server("good");
    lh_tls_options files = authority_options(&ca, "server", "ca");
    lh_tls_credentials *credentials = read_credentials(&files);
    lh_tls_context *server = open_context(LH_TLS_SERVER, files),
                   *client = open_context(LH_TLS_CLIENT, authority_options(&ca, "client", "ca"));
    const lh_tls_description before = lh_tls_credentials_describe(credentials);
    assert_true(before.serial[0]);
    assert_memory_equal(before.expires, "20", 2);

    replace_server("never-seen");
    assert_int_equal(chmod(files.key_file, 0644), 0);
    assert_int_equal(lh_tls_credentials_reload(credentials, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "chmod 600"));
    damage(files.key_file);
    assert_int_equal(chmod(files.key_file, 0600), 0);
    assert_int_equal(lh_tls_credentials_reload(credentials, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "server.key"));
    replace_server("never-seen");
    damage(files.certificate_file);
    assert_int_equal(lh_tls_credentials_reload(credentials, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "server.pem"));

    pair p = connect_pair(client, server);
    assert_string_equal(site_of_peer(p.client), "good");
    assert_string_equal(lh_tls_credentials_describe(credentials).serial, before.serial);
    close_pair(p);
    lh_tls_context_destroy(server);
    lh_tls_context_destroy(client);
    lh_tls_credentials_destroy(credentials);
}

static void a_key_that_others_may_read_is_refused(void **state) {
    (void)state;
    lh_error error;
    lh_tls_credentials *credentials;
    replace_server("careless");
    lh_tls_options files = authority_options(&ca, "server", "ca");
    assert_int_equal(chmod(files.key_file, 0644), 0);
    assert_int_equal(lh_tls_credentials_create(&files, &credentials, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "chmod 600"));
    assert_non_null(strstr(error.message, files.key_file));
    assert_int_equal(chmod(files.key_file, 0600), 0);
    assert_int_equal(lh_tls_credentials_create(&files, &credentials, &error), LH_OK);
    lh_tls_credentials_destroy(credentials);
}

/* Of a program that is to be this or that. */
static void a_program_is_what_its_certificate_says(void **state) {
    (void)state;
    lh_error error;
    lh_tls_credentials *credentials;
    replace_server("home");
    lh_tls_options worker = authority_options(&ca, "server", "ca"), gateway = worker,
                   nobody = authority_options(&ca, "nobody", "ca");
    worker.own = nobody.own = LH_TLS_WORKER;
    gateway.own = LH_TLS_GATEWAY;
    assert_int_equal(lh_tls_credentials_create(&gateway, &credentials, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "server.pem\" is that of worker attic of site home: the "
                                          "subjectAltName of a gateway's needs "
                                          "URI:longhaul://gateway"));
    authority_issue(&ca, "nobody", "ca", "attic", "DNS:attic", 30);
    assert_int_equal(lh_tls_credentials_create(&nobody, &credentials, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "nobody.pem\" is that of nobody of the fleet"));
    assert_non_null(strstr(error.message, "URI:longhaul://worker/NAME?site=SITE"));

    assert_int_equal(lh_tls_credentials_create(&worker, &credentials, &error), LH_OK);
    lh_tls_identity identity = lh_tls_credentials_identity(credentials);
    assert_true(lh_tls_identity_is_worker(&identity, "attic"));
    assert_int_equal(lh_tls_credentials_reload(credentials, &error), LH_OK);
    replace_server("office");
    assert_int_equal(lh_tls_credentials_reload(credentials, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "that of worker attic of site office, and this is worker "
                                          "attic of site home"));
    identity = lh_tls_credentials_identity(credentials);
    assert_string_equal(identity.site, "home");
    lh_tls_credentials_destroy(credentials);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_connections_use_what_was_read_again),
        cmocka_unit_test(clients_show_what_was_read_again),
        cmocka_unit_test(what_is_wrong_leaves_it_as_it_was),
        cmocka_unit_test(a_key_that_others_may_read_is_refused),
        cmocka_unit_test(a_program_is_what_its_certificate_says),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
