/* A tiny model behind a server: what is fetched, what is not, and what happens when bytes, files or
 * documents are wrong. */
#include "common/base/digest.h"
#include "common/gguf/tensor_blocks.h"
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

#define BLOCK_ROWS 8u

static char root[64], folder[80], local_path[80];
static uint8_t *model;
static size_t model_bytes, header_bytes, document_bytes;
static lh_gguf *gguf; /* of `model` */
static lh_model_config config;
/* digests of tensors, and behind plain_bytes those of blocks */
static char header_sha256[LH_SHA256_HEX_BYTES], *document;
static char *blocks;
static size_t blocks_bytes, plain_bytes;
static range_server *server;
static lh_weight_cache *cache;
static lh_thread_pool *pool;
static lh_weights *weights;
static _Atomic bool cancelled;
static lh_error error;
static uint64_t progress_done, progress_total;

static void put_digest(FILE *out, size_t index, const void *bytes, size_t length) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, index);
    uint8_t digest[LH_SHA256_BYTES];
    char hex[LH_SHA256_HEX_BYTES];
    lh_sha256_digest(bytes, length, digest);
    lh_sha256_render(digest, hex);
    fprintf(out, "%s\"%.*s\": \"%s\"", index ? ", " : "", (int)tensor->name.length,
            tensor->name.bytes, hex);
}

/* The digests of a tensor's blocks, and of them. */
static void put_blocks(FILE *out, size_t index, FILE *list) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, index);
    const lh_tensor_blocks of = lh_tensor_blocks_of(tensor, BLOCK_ROWS);
    uint8_t *digests = calloc(of.count, LH_SHA256_BYTES);
    assert_non_null(digests);
    for (uint64_t i = 0; i < of.count; i++) {
        const lh_block_extent extent = lh_tensor_block_at(&of, i);
        lh_sha256_digest(model + tensor->offset + extent.offset, extent.bytes,
                         digests + i * LH_SHA256_BYTES);
    }
    put_digest(out, index, digests, of.count * LH_SHA256_BYTES);
    fwrite(digests, LH_SHA256_BYTES, of.count, list);
    free(digests);
}

static void make_document(void) {
    FILE *out = open_memstream(&document, &document_bytes),
         *list = open_memstream(&blocks, &blocks_bytes);
    fprintf(out, "{\"tensors\": {");
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        put_digest(out, i, model + tensor->offset, tensor->bytes);
    }
    fprintf(out, "}");
    fflush(out);
    plain_bytes = document_bytes;
    fprintf(out, ", \"blocks\": {\"rows\": %u, \"url\": \"%s/blocks\", \"sha256\": {", BLOCK_ROWS,
            range_server_url(server));
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++)
        put_blocks(out, i, list);
    fprintf(out, "}}}");
    fclose(out);
    fclose(list);
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
    assert_int_equal(lh_thread_pool_create(3, &pool, &error), LH_OK);
    server = range_server_create();
    make_document();
    range_server_add(server, "/weights", model, model_bytes);
    range_server_add(server, "/tensors", document, document_bytes);
    range_server_add(server, "/blocks", blocks, blocks_bytes);
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
    free(blocks);
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
    lh_status status = lh_weights_ensure(weights, &config, (lh_layer_range){first, last}, NULL,
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

/* By this process, from files: page cache or disk. */
static uint64_t regular_bytes_read(void) {
    char line[64];
    unsigned long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        sscanf(line, "rchar: %llu", &bytes);
    fclose(file);
    return bytes;
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
        got = lh_weights_ensure(opened, &config, (lh_layer_range){0, 1}, NULL, NULL, NULL, &error);
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
            status = lh_weights_ensure(opened, &config, (lh_layer_range){0, 1}, NULL, NULL, NULL,
                                       &error);
        bool failed = failing_malloc_disarm();
        lh_weights_close(opened);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        refused++;
    }
    assert_in_range(refused, 10, 200);
}

/* ---- Parts of tensors ---- */

/* Of each matrix this part of its rows. */
typedef struct part_of_rows {
    uint64_t number, of;
} part_of_rows;

static uint32_t some_rows(void *context, lh_tensor_role role, const lh_gguf_tensor *tensor,
                          lh_tensor_slice slices[LH_TENSOR_PARTS_MAX]) {
    const part_of_rows *part = context;
    const uint64_t rows = tensor->shape[1], row = tensor->bytes / rows,
                   first = rows * part->number / part->of,
                   last = rows * (part->number + 1) / part->of;
    slices[0] = lh_model_is_matrix(role)
                    ? (lh_tensor_slice){first * row, (last - first) * row, 0, 1}
                    : (lh_tensor_slice){0, tensor->bytes, 0, 1};
    return 1;
}

static lh_status ensure_part(uint32_t first, uint32_t last, uint64_t number, uint64_t of) {
    part_of_rows part = {number, of};
    const lh_weight_needs needs = {some_rows, &part};
    progress_total = progress_done = 0;
    lh_status status = lh_weights_ensure(weights, &config, (lh_layer_range){first, last}, &needs,
                                         on_progress, NULL, &error);
    if (status == LH_OK)
        assert_int_equal(progress_done, progress_total);
    return status;
}

typedef struct checking {
    part_of_rows part;
    uint64_t sum;
} checking;

/* lh_tensor_visitor: what is needed of the tensor has the model's bytes. */
static lh_status check_part_of_tensor(void *context, lh_tensor_role role, uint32_t layer,
                                      const lh_gguf_tensor *tensor, lh_error *failure) {
    checking *c = context;
    (void)layer;
    lh_weight_source source = lh_weights_source(weights);
    lh_tensor_slice slice[LH_TENSOR_PARTS_MAX];
    some_rows(&c->part, role, tensor, slice);
    lh_status status = source.acquire(source.context, tensor, failure);
    if (status != LH_OK)
        return status;
    uint8_t *bytes = malloc(slice->bytes);
    assert_non_null(bytes);
    status =
        source.read(source.context, tensor, slice->offset, bytes, (size_t)slice->bytes, failure);
    source.release(source.context, tensor);
    if (status == LH_OK)
        assert_memory_equal(bytes, model + tensor->offset + slice->offset, slice->bytes);
    free(bytes);
    c->sum += slice->bytes;
    return status;
}

static uint64_t check_part(uint32_t first, uint32_t last, uint64_t number, uint64_t of) {
    checking c = {.part = {number, of}};
    assert_int_equal(lh_model_visit_tensors(lh_weights_gguf(weights), &config,
                                            (lh_layer_range){first, last}, check_part_of_tensor, &c,
                                            &error),
                     LH_OK);
    return c.sum;
}

static void open_anew(void) {
    lh_weights_close(weights);
    weights = NULL;
    lh_weight_cache_close(cache);
    open_cache();
    assert_int_equal(open_weights(NULL), LH_OK);
}

static lh_status add_list(void *context, lh_tensor_role role, uint32_t layer,
                          const lh_gguf_tensor *tensor, lh_error *failure) {
    uint64_t *sum = context;
    (void)layer;
    (void)failure;
    if (lh_model_is_matrix(role))
        *sum += lh_tensor_blocks_of(tensor, BLOCK_ROWS).count * LH_SHA256_BYTES;
    return LH_OK;
}

/* Bytes of the digests of blocks that the range needs. */
static uint64_t list_bytes(uint32_t first, uint32_t last) {
    uint64_t sum = 0;
    lh_model_visit_tensors(gguf, &config, (lh_layer_range){first, last}, add_list, &sum, &error);
    return sum;
}

static void test_a_part_is_fetched_and_another_one_added(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(1, 3, 0, 2), LH_OK);
    const uint64_t first = check_part(1, 3, 0, 2), lists = list_bytes(1, 3);
    assert_int_equal(first, progress_total);
    assert_int_equal(lh_weights_fetched_bytes(weights), header_bytes + lists + first);

    /* another process, and the other half */
    open_anew();
    assert_int_equal(ensure_part(1, 3, 0, 2), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);
    assert_int_equal(ensure_part(1, 3, 1, 2), LH_OK);
    const uint64_t second = check_part(1, 3, 1, 2), fetched = lh_weights_fetched_bytes(weights);
    assert_true(fetched < second); /* vectors are there */
    check_part(1, 3, 0, 2);

    /* and the whole is here, too */
    assert_int_equal(ensure(1, 3), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), fetched);
    check_range(1, 3);
    open_anew();
    assert_int_equal(ensure(1, 3), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);
    check_range(1, 3);
}

/* What is not here of a part is not given out as if it were. */
static void test_what_is_not_of_the_part_is_not_there(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 0, 4), LH_OK);
    const lh_gguf_tensor *tensor =
        lh_gguf_tensor_find(lh_weights_gguf(weights), "blk.0.ffn_up.weight");
    lh_weight_source source = lh_weights_source(weights);
    uint8_t byte;
    assert_int_equal(source.acquire(source.context, tensor, &error), LH_OK);
    assert_int_equal(source.read(source.context, tensor, tensor->bytes / 4 - 1, &byte, 1, &error),
                     LH_OK);
    assert_int_equal(source.read(source.context, tensor, tensor->bytes / 2, &byte, 1, &error),
                     LH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "blk.0.ffn_up.weight"));
    source.release(source.context, tensor);
}

/* Of a whole tensor in the cache, as others have left it, nothing is fetched. */
static void test_a_whole_tensor_has_every_part(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure(1, 3), LH_OK);
    open_anew();
    assert_int_equal(ensure_part(1, 3, 1, 3), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);
    check_part(1, 3, 1, 3);
    write_local(model_bytes);
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure_part(0, 4, 0, 3), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);
    check_part(0, 4, 0, 3);
}

/* Of a server that has no digests of blocks tensors come whole. */
static void test_without_digests_of_blocks_tensors_come_whole(void **state) {
    (void)state;
    char url[96], *plain = malloc(plain_bytes + 1);
    assert_non_null(plain);
    memcpy(plain, document, plain_bytes);
    plain[plain_bytes] = '}';
    range_server_add(server, "/plain", plain, plain_bytes + 1);
    snprintf(url, sizeof url, "%s/plain", range_server_url(server));
    lh_weights_options options = default_options();
    options.tensors_url = url;
    assert_int_equal(lh_weights_open(&options, &weights, &error), LH_OK);
    assert_int_equal(ensure_part(1, 3, 0, 2), LH_OK);
    const uint64_t bytes = check_range(1, 3);
    assert_int_equal(lh_weights_fetched_bytes(weights), header_bytes + bytes);
    lh_weights_close(weights);
    weights = NULL;
    range_server_destroy(server);
    server = range_server_create();
    free(plain);
}

static void change_slices(const char *tensor_name, long at) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_find(gguf, tensor_name);
    char path[200], hex[LH_SHA256_HEX_BYTES];
    uint8_t digest[LH_SHA256_BYTES];
    lh_sha256_digest(model + tensor->offset, tensor->bytes, digest);
    lh_sha256_render(digest, hex);
    snprintf(path, sizeof path, "%s/%s.slices", folder, hex);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    fputc(model[tensor->offset + (uint64_t)at] ^ 1, file);
    fclose(file);
}

/* Damaged on its way a block is asked for once more; on disk it is found out and fetched again. */
static void test_damaged_blocks(void **state) {
    (void)state;
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 0, 4), LH_OK); /* the lists are here */
    range_server_fail(server, RANGE_WRONG_BYTE, 1);
    assert_int_equal(ensure_part(0, 1, 1, 4), LH_OK);
    check_part(0, 1, 1, 4);
    range_server_fail(server, RANGE_WRONG_BYTES, 100);
    assert_int_equal(ensure_part(0, 1, 2, 4), LH_ERR_CORRUPT);
    assert_non_null(strstr(error.message, ": block "));
    range_server_fail(server, RANGE_SOUND, 0);
    assert_int_equal(ensure_part(0, 1, 2, 4), LH_OK);

    const lh_gguf_tensor *tensor = lh_gguf_tensor_find(gguf, "blk.0.ffn_up.weight");
    change_slices("blk.0.ffn_up.weight", 0);
    open_anew();
    assert_int_equal(ensure_part(0, 1, 0, 4), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights),
                     BLOCK_ROWS * (tensor->bytes / tensor->shape[1]));
    check_part(0, 1, 0, 4);
}

/* A process checks a block once: that nothing is read for the next stage shows where somebody has
 * damaged it meanwhile. Blocks of a file that is not the one any more are checked. */
static void test_what_was_checked_is_believed(void **state) {
    (void)state;
    char command[256];
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK);
    open_anew();
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK); /* here they are checked, */
    change_slices("blk.0.ffn_up.weight", 0);
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);
    assert_int_equal(ensure_part(0, 1, 1, 2), LH_OK); /* and here they are written */
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 1, 2), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), 0);

    snprintf(command, sizeof command, "cd '%s' && for f in *.slices; do cp $f new; mv new $f; done",
             folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK);
    const lh_gguf_tensor *tensor = lh_gguf_tensor_find(gguf, "blk.0.ffn_up.weight");
    assert_int_equal(lh_weights_fetched_bytes(weights),
                     BLOCK_ROWS * (tensor->bytes / tensor->shape[1]));
    check_part(0, 1, 0, 2);

    /* Cut while this process knows it, and made anew. */
    snprintf(command, sizeof command, "truncate -s 100 '%s'/*.slices", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK);
    assert_true(lh_weights_fetched_bytes(weights) > 0);
    check_part(0, 1, 0, 2);
}

static void test_a_local_file_is_read_through_once(void **state) {
    (void)state;
    write_local(model_bytes);
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure(0, 4), LH_OK);
    assert_int_equal(open_weights(local_path), LH_OK);
    const uint64_t before = regular_bytes_read();
    assert_int_equal(ensure(0, 4), LH_OK);
    assert_true(regular_bytes_read() - before < model_bytes / 10);
    check_range(0, 4);

    /* Somebody writes to it. */
    const lh_gguf_tensor *tensor = lh_gguf_tensor_find(gguf, "blk.2.ffn_up.weight");
    model[tensor->offset] ^= 1;
    usleep(20000); /* the clock of file times is coarse */
    write_local(model_bytes);
    model[tensor->offset] ^= 1;
    assert_int_equal(open_weights(local_path), LH_OK);
    assert_int_equal(ensure(0, 4), LH_OK);
    assert_int_equal(lh_weights_fetched_bytes(weights), tensor->bytes);
    check_range(0, 4);
}

/* Cut by somebody, and emptied while it runs. */
static void test_a_file_of_slices_that_is_lost(void **state) {
    (void)state;
    char command[128];
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK);
    snprintf(command, sizeof command, "truncate -s 100 '%s'/*.slices", folder);
    assert_int_equal(system(command), 0);
    open_anew();
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK);
    check_part(0, 1, 0, 2);
    snprintf(command, sizeof command, "rm '%s'/*.slices", folder);
    assert_int_equal(system(command), 0);
    checking c = {.part = {0, 2}};
    assert_int_equal(lh_model_visit_tensors(lh_weights_gguf(weights), &config,
                                            (lh_layer_range){0, 1}, check_part_of_tensor, &c,
                                            &error),
                     LH_ERR_NOT_FOUND);
    open_anew();
    assert_int_equal(ensure_part(0, 1, 0, 2), LH_OK);
    check_part(0, 1, 0, 2);
}

static void test_documents_of_blocks(void **state) {
    (void)state;
    expect_document("{\"tensors\": {}, \"blocks\": []}", LH_ERR_MALFORMED, "blocks has no rows");
    expect_document("{\"tensors\": {}, \"blocks\": {\"rows\": 0, \"url\": \"/b\", \"sha256\": {}}}",
                    LH_ERR_MALFORMED, "blocks has no rows");
    expect_document("{\"tensors\": {}, \"blocks\": {\"rows\": 8, \"url\": 5, \"sha256\": {}}}",
                    LH_ERR_MALFORMED, "blocks has no rows");
    expect_document("{\"tensors\": {}, \"blocks\": {\"rows\": 8, \"url\": \"/b\", \"sha256\": "
                    "{\"output_norm.weight\": \"ab\"}}}",
                    LH_ERR_MALFORMED, "blocks.sha256.output_norm.weight is not");
}

static void test_every_allocation_fails_for_a_part(void **state) {
    (void)state;
    part_of_rows part = {1, 2};
    const lh_weight_needs needs = {some_rows, &part};
    assert_int_equal(open_weights(NULL), LH_OK);
    assert_int_equal(ensure_part(0, 1, 1, 2), LH_OK);
    int refused = 0;
    for (size_t n = 1;; n++) {
        lh_weights *opened = NULL;
        lh_weights_options options = default_options();
        failing_malloc_arm(n);
        lh_status status = lh_weights_open(&options, &opened, &error);
        if (status == LH_OK)
            status = lh_weights_ensure(opened, &config, (lh_layer_range){0, 1}, &needs, NULL, NULL,
                                       &error);
        bool failed = failing_malloc_disarm();
        lh_weights_close(opened);
        if (!failed)
            break;
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        refused++;
    }
    assert_in_range(refused, 10, 400);
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
        cmocka_unit_test_setup_teardown(test_a_part_is_fetched_and_another_one_added, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_not_of_the_part_is_not_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_whole_tensor_has_every_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_digests_of_blocks_tensors_come_whole, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_checked_is_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_local_file_is_read_through_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_of_slices_that_is_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_documents_of_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_allocation_fails_for_a_part, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
