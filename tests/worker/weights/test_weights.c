/* A tiny model behind a server: what is fetched, what is not, and what happens when bytes, files or
 * documents are wrong. */
#include "common/base/digest.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/tiny_llama.h"
#include "tests/worker/support/range_server.h"
#include "worker/weights/weights.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[64], folder[80], local_path[80];
static uint8_t *model;
static size_t model_bytes, header_bytes, document_bytes;
static lh_gguf *gguf; /* of `model` */
static lh_model_config config;
static char header_sha256[LH_SHA256_HEX_BYTES], *document;
static range_server *server;
static lh_weight_cache *cache;
static lh_thread_pool *pool;
static lh_weights *weights;
static _Atomic bool cancelled;
static lh_error error;
static uint64_t progress_done, progress_total;

static void make_document(void) {
    FILE *out = open_memstream(&document, &document_bytes);
    fprintf(out, "{\"tensors\": {");
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        uint8_t digest[LH_SHA256_BYTES];
        char hex[LH_SHA256_HEX_BYTES];
        lh_sha256_digest(model + tensor->offset, tensor->bytes, digest);
        lh_sha256_render(digest, hex);
        fprintf(out, "%s\"%.*s\": \"%s\"", i ? ", " : "", (int)tensor->name.length,
                tensor->name.bytes, hex);
    }
    fprintf(out, "}}");
    fclose(out);
}

static void open_cache(void) {
    assert_int_equal(lh_weight_cache_open(folder, &cache, &error), LH_OK);
}

static int set_up(void **state) {
    (void)state;
    uint8_t digest[LH_SHA256_BYTES];
    tiny_llama tiny = tiny_llama_default();
    tiny.layers = 4;
    model = tiny_llama_bytes(&tiny, &model_bytes);
    assert_int_equal(lh_gguf_parse(model, model_bytes, model_bytes, &gguf, &error), LH_OK);
    assert_int_equal(lh_model_config_read(gguf, &config, &error), LH_OK);
    header_bytes = (size_t)lh_gguf_data_offset(gguf);
    lh_sha256_digest(model, header_bytes, digest);
    lh_sha256_render(digest, header_sha256);
    make_document();
    assert_int_equal(lh_thread_pool_create(3, &pool, &error), LH_OK);
    server = range_server_create();
    range_server_add(server, "/weights", model, model_bytes);
    range_server_add(server, "/tensors", document, document_bytes);
    snprintf(root, sizeof root, "/tmp/longhaul-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/cache", root);
    snprintf(local_path, sizeof local_path, "%s/model.gguf", root);
    atomic_store(&cancelled, false);
    open_cache();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    lh_weights_close(weights);
    weights = NULL;
    lh_weight_cache_close(cache);
    range_server_destroy(server);
    lh_thread_pool_destroy(pool);
    free(document);
    lh_gguf_destroy(gguf);
    free(model);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static lh_weights_options default_options(void) {
    static char weights_url[96], tensors_url[96];
    snprintf(weights_url, sizeof weights_url, "%s/weights", range_server_url(server));
    snprintf(tensors_url, sizeof tensors_url, "%s/tensors", range_server_url(server));
    return (lh_weights_options){.header_sha256 = header_sha256,
                                .header_bytes = header_bytes,
                                .file_bytes = model_bytes,
                                .weights_url = weights_url,
                                .tensors_url = tensors_url,
                                .fleet_url = "http://127.0.0.1:1",
                                .cache = cache,
                                .pool = pool,
                                .cancelled = &cancelled};
}

/* Opens anew, with a local file or without. */
static lh_status open_weights(const char *path) {
    lh_weights_options options = default_options();
    options.model_path = path;
    lh_weights_close(weights);
    weights = NULL;
    return lh_weights_open(&options, &weights, &error);
}

static void on_progress(void *context, uint64_t done, uint64_t total) {
    (void)context;
    assert_true(done <= total);
    assert_true(total == progress_total || progress_total == 0);
    progress_done = done;
    progress_total = total;
}

static lh_status ensure(uint32_t first, uint32_t last) {
    progress_total = progress_done = 0;
    lh_status status = lh_weights_ensure(weights, &config, (lh_layer_range){first, last},
                                         on_progress, NULL, &error);
    if (status == LH_OK)
        assert_int_equal(progress_done, progress_total);
    return status;
}

/* lh_tensor_visitor: the source gives the model's bytes. */
static lh_status check_tensor(void *context, lh_tensor_role role, uint32_t layer,
                              const lh_gguf_tensor *tensor, lh_error *failure) {
    (void)role;
    (void)layer;
    lh_weight_source source = lh_weights_source(weights);
    uint64_t *sum = context;
    char name[65] = "";
    memcpy(name, tensor->name.bytes, tensor->name.length);
    lh_status status = source.acquire(source.context, tensor, failure);
    if (status != LH_OK)
        return status;
    uint8_t *bytes = malloc(tensor->bytes);
    assert_non_null(bytes);
    status = source.read(source.context, tensor, 0, bytes, tensor->bytes, failure);
    source.release(source.context, tensor);
    if (status == LH_OK)
        assert_memory_equal(bytes, model + lh_gguf_tensor_find(gguf, name)->offset, tensor->bytes);
    free(bytes);
    *sum += tensor->bytes;
    return status;
}

/* Bytes of the tensors that the range needs, each compared with the model's. */
static uint64_t check_range(uint32_t first, uint32_t last) {
    uint64_t sum = 0;
    assert_int_equal(lh_model_visit_tensors(lh_weights_gguf(weights), &config,
                                            (lh_layer_range){first, last}, check_tensor, &sum,
                                            &error),
                     LH_OK);
    return sum;
}

static void write_local(size_t length) {
    FILE *file = fopen(local_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model, 1, length, file), length);
    fclose(file);
}

static void test_fetches_what_the_range_needs_and_once(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), header_bytes);
    assert_int_equal(ensure(1, 3), LH_OK);
    uint64_t bytes = check_range(1, 3);
    assert_int_equal(bytes, progress_total);
    assert_int_equal(lh_weights_fetched_bytes(weights), header_bytes + bytes);
    assert_int_equal(range_server_requests(server), 3); /* header, digests, and 18 tensors in one */
    assert_int_equal(ensure(1, 3), LH_OK);
    assert_int_equal(ensure(1, 4), LH_OK); /* the last layer, the norm and the tied head */
    check_range(1, 4);

    /* Another process: nothing but the digests is asked for. */
    unsigned before = range_server_requests(server);
    lh_weights_close(weights);
    weights = NULL;
    lh_weight_cache_close(cache);
    open_cache();
    assert_int_equal(open_weights(""), LH_OK);
    assert_int_equal(ensure(1, 4), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);
    assert_int_equal(range_server_requests(server) - before, 1);
    check_range(1, 4);
}

static void test_what_was_not_ensured_is_not_there(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure(0, 1), LH_OK);
    lh_weight_source source = lh_weights_source(weights);
    const lh_gguf_tensor *tensor =
        lh_gguf_tensor_find(lh_weights_gguf(weights), "blk.3.ffn_up.weight");
    assert_int_equal(source.acquire(source.context, tensor, &error), LH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "blk.3.ffn_up.weight"));
}

static void test_local_file(void **state) {
    (void)state;
    write_local(model_bytes);
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure(0, 4), LH_OK);
    check_range(0, 4);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);
    assert_int_equal(range_server_requests(server), 1);
}

static void test_local_file_of_another_model(void **state) {
    (void)state;
    write_local(model_bytes - 1);
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), header_bytes);
    model[header_bytes - 1] ^= 1;
    write_local(model_bytes);
    model[header_bytes - 1] ^= 1;
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure(0, 1), LH_OK);
    assert_true(lh_weights_fetched_bytes(weights) > 0);
    check_range(0, 1);
    assert_int_equal(open_weights("/nothing/here.gguf"), LH_OK);
    assert_int_equal(ensure(0, 1), LH_OK);
}

static void test_local_file_with_one_wrong_tensor(void **state) {
    (void)state;
    const lh_gguf_tensor *tensor = lh_gguf_tensor_find(gguf, "blk.1.attn_k.weight");
    model[tensor->offset + 5] ^= 1;
    write_local(model_bytes);
    model[tensor->offset + 5] ^= 1;
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure(0, 4), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), tensor->bytes);
    check_range(0, 4);
}

/* What is gone is fetched. */
static void test_local_file_that_is_cut(void **state) {
    (void)state;
    write_local(model_bytes);
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(truncate(local_path, (off_t)(header_bytes + model_bytes) / 2), 0);
    assert_int_equal(ensure(0, 4), LH_OK);
    uint64_t bytes = check_range(0, 4);
    assert_in_range(lh_weights_fetched_bytes(weights), 1, bytes - 1);
}

/* After it was checked: an error of the load, and the next one fetches. */
static void test_local_file_that_is_cut_while_it_is_read(void **state) {
    (void)state;
    uint64_t sum = 0;
    write_local(model_bytes);
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure(0, 4), LH_OK);
    assert_int_equal(truncate(local_path, (off_t)(header_bytes + model_bytes) / 2), 0);
    assert_int_equal(lh_model_visit_tensors(lh_weights_gguf(weights), &config,
                                            (lh_layer_range){0, 4}, check_tensor, &sum, &error),
                     LH_ERR_IO);
    assert_non_null(strstr(error.message, local_path));
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure(0, 4), LH_OK);
    check_range(0, 4);
}

static void test_damage_on_the_way(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    range_server_fail(server, RANGE_WRONG_BYTE, 1);
    assert_int_equal(ensure(0, 2), LH_OK);
    check_range(0, 2);
    range_server_fail(server, RANGE_WRONG_BYTE, 100);
    assert_int_equal(ensure(0, 4), LH_ERR_CORRUPT);
    assert_non_null(strstr(error.message, "blk."));
    range_server_fail(server, RANGE_SOUND, 0);
    assert_int_equal(ensure(0, 4), LH_OK);
    check_range(0, 4);
}

static void test_damaged_header(void **state) {
    (void)state;
    range_server_fail(server, RANGE_WRONG_BYTE, 100);
    assert_int_equal(open_weights(NULL), LH_ERR_CORRUPT);
    assert_non_null(strstr(error.message, "GGUF header"));
    range_server_fail(server, RANGE_404, 100);
    assert_int_equal(open_weights(NULL), LH_ERR_NOT_FOUND);
    range_server_fail(server, RANGE_NOT_PARTIAL, 100);
    assert_int_equal(open_weights(NULL), LH_ERR_UNSUPPORTED);
    range_server_fail(server, RANGE_SOUND, 0);
    assert_int_equal(open_weights(NULL), LH_OK);
}

static void test_options(void **state) {
    (void)state;
    lh_weights_options options = default_options();
    options.header_sha256 = "../../etc/passwd";
    assert_int_equal(lh_weights_open(&options, &weights, &error), LH_ERR_INVALID);
    options = default_options();
    options.header_bytes = UINT64_MAX;
    assert_int_equal(lh_weights_open(&options, &weights, &error), LH_ERR_INVALID);
    options = default_options();
    options.header_bytes = model_bytes + 1;
    assert_int_equal(lh_weights_open(&options, &weights, &error), LH_ERR_INVALID);
    options = default_options();
    options.file_bytes = UINT64_MAX;
    assert_int_equal(lh_weights_open(&options, &weights, &error), LH_ERR_INVALID);
    options = default_options();
    options.file_bytes = model_bytes - 1; /* then the last tensor ends behind it */
    assert_int_equal(lh_weights_open(&options, &weights, &error), LH_ERR_MALFORMED);
    options = default_options();
    options.weights_url = "gopher://127.0.0.1/x";
    options.file_bytes = model_bytes + 1;
    lh_weight_cache_close(cache);
    snprintf(folder, sizeof folder, "%s/other", root);
    open_cache();
    options.cache = cache;
    assert_int_equal(lh_weights_open(&options, &weights, &error), LH_ERR_INVALID);
    assert_null(weights);
}

static void expect_document(const char *text, lh_status status, const char *part) {
    char path[16], url[96];
    static unsigned number;
    range_server *other = range_server_create();
    snprintf(path, sizeof path, "/d%u", number++);
    range_server_add(other, path, text, strlen(text));
    snprintf(url, sizeof url, "%s%s", range_server_url(other), path);
    lh_weights_options options = default_options();
    options.tensors_url = url;
    lh_weights *opened = NULL;
    lh_status got = lh_weights_open(&options, &opened, &error);
    if (got == LH_OK)
        got = lh_weights_ensure(opened, &config, (lh_layer_range){0, 1}, NULL, NULL, &error);
    lh_weights_close(opened);
    range_server_destroy(other);
    if (got != status || !strstr(error.message, part))
        fail_msg("%s \"%s\", wanted %s \"%s\"", lh_status_name(got), error.message,
                 lh_status_name(status), part);
}

static void test_documents(void **state) {
    (void)state;
    static char deep[5000], large[1 << 20];
    expect_document("", LH_ERR_MALFORMED, "tensor digests");
    expect_document("{", LH_ERR_MALFORMED, "tensor digests");
    expect_document("[]", LH_ERR_MALFORMED, "no object");
    expect_document("{\"tensors\": []}", LH_ERR_MALFORMED, "no object");
    expect_document("{\"tensors\": {}}", LH_ERR_NOT_FOUND, "no digest of tensor token_embd.weight");
    expect_document("{\"tensors\": {\"output_norm.weight\": 7}}", LH_ERR_MALFORMED,
                    "tensors.output_norm.weight is not");
    expect_document("{\"tensors\": {\"output_norm.weight\": \"../../../../etc/passwd\"}}",
                    LH_ERR_MALFORMED, "64 hex digits");
    expect_document("{\"tensors\": {}, \"tensors\": {}}", LH_ERR_MALFORMED, "duplicate");
    memset(deep, '[', sizeof deep - 1);
    expect_document(deep, LH_ERR_MALFORMED, "depth");
    memset(large, ' ', sizeof large - 1);
    expect_document(large, LH_ERR_LIMIT, "sends more than");
}

static void test_cancel(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    atomic_store(&cancelled, true);
    assert_int_equal(ensure(0, 4), LH_ERR_CANCELLED);
    assert_int_equal(open_weights(NULL), LH_ERR_CANCELLED);
    atomic_store(&cancelled, false);
    assert_int_equal(open_weights(NULL), LH_OK);
}

/* The cache folder is emptied while the worker runs: an error, and the next assignment fetches
 * again. */
static void test_cache_is_emptied(void **state) {
    (void)state;
    char command[128];
    uint64_t sum = 0;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure(0, 1), LH_OK);
    snprintf(command, sizeof command, "rm -f '%s'/*", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(lh_model_visit_tensors(lh_weights_gguf(weights), &config,
                                            (lh_layer_range){0, 1}, check_tensor, &sum, &error),
                     LH_ERR_NOT_FOUND);
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure(0, 1), LH_OK);
    check_range(0, 1);
}

/* Every allocation of ours; those inside libcurl and jansson are their own. */
static void test_every_allocation_fails(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure(0, 1), LH_OK);
    int refused = 0;
    for (size_t n = 1;; n++) {
        lh_weights *opened = NULL;
        lh_weights_options options = default_options();
        failing_malloc_arm(n);
        lh_status status = lh_weights_open(&options, &opened, &error);
        if (status == LH_OK)
            status = lh_weights_ensure(opened, &config, (lh_layer_range){0, 1}, NULL, NULL, &error);
        bool failed = failing_malloc_disarm();
        lh_weights_close(opened);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        refused++;
    }
    assert_in_range(refused, 10, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fetches_what_the_range_needs_and_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_not_ensured_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_local_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_local_file_of_another_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_local_file_with_one_wrong_tensor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_local_file_that_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_local_file_that_is_cut_while_it_is_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_damage_on_the_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_documents, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cache_is_emptied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_allocation_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
