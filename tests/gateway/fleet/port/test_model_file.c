/* The served file: identity and digests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/gguf/tensor_blocks.h"
#include "gateway/fleet/model_profile.h"
#include "gateway/fleet/port/model_file.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/tiny_llama.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done;

static void on_done(void *context) {
    (void)context;
    pthread_mutex_lock(&mutex);
    done++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static char path[64];

/* The file stays at `path`. */
static lh_model_file *open_kept(const tiny_llama *tiny) {
    strcpy(path, "/tmp/longhaul-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny_llama_save(tiny, path);
    lh_model_file *file;
    assert_int_equal(lh_model_file_open(path, &file, NULL), LH_OK);
    return file;
}

static lh_model_file *open_tiny(const tiny_llama *tiny) {
    lh_model_file *file = open_kept(tiny);
    unlink(path);
    return file;
}

/* The digests of the tensor's blocks lie at `at`, one after the other, and their own digest is
 * told. Returns how many bytes they have. */
static uint64_t check_blocks(const lh_model_file *file, size_t index, const uint8_t *bytes,
                             uint64_t at) {
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(lh_model_file_gguf(file), index);
    const lh_tensor_blocks blocks = lh_tensor_blocks_of(tensor, LH_TENSOR_BLOCK_ROWS);
    const size_t length = (size_t)blocks.count * LH_SHA256_BYTES;
    uint8_t *digests = malloc(length), expected[LH_SHA256_BYTES];
    assert_non_null(digests);
    assert_int_equal(lh_model_file_read_blocks(file, at, digests, length, NULL), LH_OK);
    lh_sha256_digest(digests, length, expected);
    assert_memory_equal(expected, lh_model_file_blocks_digest(file, index), LH_SHA256_BYTES);
    for (uint64_t i = 0; i < blocks.count; i++) {
        const lh_block_extent extent = lh_tensor_block_at(&blocks, i);
        lh_sha256_digest(bytes + extent.offset, (size_t)extent.bytes, expected);
        assert_memory_equal(expected, digests + i * LH_SHA256_BYTES, LH_SHA256_BYTES);
    }
    free(digests);
    return length;
}

static void every_tensor_gets_its_digest(void **state) {
    (void)state;
    tiny_llama tiny = tiny_llama_default();
    for (uint32_t threads = 1; threads <= 4; threads++) {
        lh_model_file *file = open_tiny(&tiny);
        done = 0;
        assert_false(lh_model_file_has_digests(file));
        assert_int_equal(lh_model_file_start_digests(file, threads, "", on_done, NULL, NULL),
                         LH_OK);
        pthread_mutex_lock(&mutex);
        while (!done)
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        lh_model_file_stop_digests(file);
        assert_int_equal(done, 1);
        assert_true(lh_model_file_has_digests(file));
        const lh_gguf *gguf = lh_model_file_gguf(file);
        uint64_t at = 0;
        for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
            const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
            uint8_t expected[LH_SHA256_BYTES];
            uint8_t *bytes = malloc((size_t)tensor->bytes);
            assert_non_null(bytes);
            assert_int_equal(
                lh_model_file_read(file, tensor->offset, bytes, (size_t)tensor->bytes, NULL),
                LH_OK);
            lh_sha256_digest(bytes, (size_t)tensor->bytes, expected);
            assert_memory_equal(expected, lh_model_file_tensor_digest(file, i), LH_SHA256_BYTES);
            at += check_blocks(file, i, bytes, at);
            free(bytes);
        }
        assert_int_equal(lh_model_file_blocks_size(file), at);
        lh_model_file_close(file);
    }
}

static void the_header_is_the_identity(void **state) {
    (void)state;
    tiny_llama tiny = tiny_llama_default(), other = tiny_llama_default();
    other.context *= 2;
    lh_model_file *a = open_tiny(&tiny), *b = open_tiny(&tiny), *c = open_tiny(&other);
    assert_string_equal(lh_model_file_header_sha256(a), lh_model_file_header_sha256(b));
    assert_string_not_equal(lh_model_file_header_sha256(a), lh_model_file_header_sha256(c));
    assert_true(lh_model_file_header_bytes(a) < lh_model_file_size(a));
    lh_model_file_close(a);
    lh_model_file_close(b);
    lh_model_file_close(c);
}

/* Larger than what is read of it at first. */
static void a_long_header_is_read_whole(void **state) {
    (void)state;
    tiny_llama tiny = tiny_llama_default();
    tiny.vocabulary = 400000;
    lh_model_file *file = open_tiny(&tiny);
    assert_true(lh_model_file_header_bytes(file) > 2 * (4u << 20));
    size_t count = 0;
    assert_int_equal(
        lh_gguf_get_array(lh_model_file_gguf(file), "tokenizer.ggml.tokens", &count, NULL), LH_OK);
    assert_int_equal(count, 400000);
    lh_model_file_close(file);
}

/* Nobody waits for digests that do not come, and nobody is ended. */
static void a_file_that_is_cut_has_no_digests(void **state) {
    (void)state;
    tiny_llama tiny = tiny_llama_default();
    lh_model_file *file = open_kept(&tiny);
    assert_int_equal(truncate(path, (off_t)lh_model_file_size(file) - 1), 0);
    done = 0;
    assert_int_equal(lh_model_file_start_digests(file, 2, "", on_done, NULL, NULL), LH_OK);
    while (!lh_model_file_has_failed(file))
        usleep(1000);
    lh_model_file_stop_digests(file);
    assert_false(lh_model_file_has_digests(file));
    assert_int_equal(done, 0);
    lh_model_file_close(file);
    unlink(path);
}

static void note_thread(void *context) {
    *(pthread_t *)context = pthread_self();
}

/* Whether the digests are there at once, and not when the threads are through; of the file at
 * `path`. */
static bool are_kept_in(const char *folder, uint8_t digest[LH_SHA256_BYTES]) {
    lh_model_file *file;
    pthread_t done_by;
    assert_int_equal(lh_model_file_open(path, &file, NULL), LH_OK);
    assert_int_equal(lh_model_file_start_digests(file, 2, folder, note_thread, &done_by, NULL),
                     LH_OK);
    while (!lh_model_file_has_digests(file))
        usleep(1000);
    memcpy(digest, lh_model_file_tensor_digest(file, 0), LH_SHA256_BYTES);
    uint8_t *bytes = malloc((size_t)lh_gguf_tensor_at(lh_model_file_gguf(file), 0)->bytes);
    assert_non_null(bytes);
    const lh_gguf_tensor *tensor = lh_gguf_tensor_at(lh_model_file_gguf(file), 0);
    lh_model_file_read(file, tensor->offset, bytes, (size_t)tensor->bytes, NULL);
    check_blocks(file, 0, bytes, 0);
    free(bytes);
    lh_model_file_close(file);
    return pthread_equal(done_by, pthread_self());
}

/* Changes a byte where the first tensor is; the size stays. */
static void write_into(const char *name, long offset, int whence) {
    FILE *file = fopen(name, "r+");
    assert_non_null(file);
    fseek(file, offset, whence);
    int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void digests_outlive_the_gateway(void **state) {
    (void)state;
    char folder[] = "/tmp/longhaul-state-XXXXXX", kept[64];
    uint8_t first[LH_SHA256_BYTES], second[LH_SHA256_BYTES];
    assert_non_null(mkdtemp(folder));
    snprintf(kept, sizeof kept, "%s/model-digests", folder);
    tiny_llama tiny = tiny_llama_default();
    lh_model_file *file = open_kept(&tiny);
    const long at = (long)lh_gguf_tensor_at(lh_model_file_gguf(file), 0)->offset;
    lh_model_file_close(file);
    assert_false(are_kept_in(folder, first));
    assert_true(are_kept_in(folder, second));
    assert_memory_equal(first, second, LH_SHA256_BYTES);

    /* What is kept is damaged, cut, or longer than it should be. */
    write_into(kept, -1, SEEK_END);
    assert_false(are_kept_in(folder, second));
    write_into(kept, 40, SEEK_SET);
    assert_false(are_kept_in(folder, second));
    assert_int_equal(truncate(kept, 31), 0);
    assert_false(are_kept_in(folder, second));
    assert_int_equal(truncate(kept, 1 << 20), 0);
    assert_false(are_kept_in(folder, second));
    assert_true(are_kept_in(folder, second));
    assert_memory_equal(first, second, LH_SHA256_BYTES);

    /* The file is not the one any more. */
    write_into(path, at, SEEK_SET);
    assert_false(are_kept_in(folder, second));
    assert_memory_not_equal(first, second, LH_SHA256_BYTES);
    assert_true(are_kept_in(folder, second));
    unlink(path);

    /* Another model; then the folder is gone. */
    tiny.layers++;
    lh_model_file_close(open_kept(&tiny));
    assert_false(are_kept_in(folder, second));
    assert_true(are_kept_in(folder, second));
    unlink(kept);
    rmdir(folder);
    assert_false(are_kept_in(folder, second));
    assert_false(are_kept_in(folder, second));
    unlink(path);
}

static void closing_does_not_wait_for_the_digests(void **state) {
    (void)state;
    tiny_llama tiny = tiny_llama_default();
    for (int i = 0; i < 20; i++) {
        lh_model_file *file = open_tiny(&tiny);
        assert_int_equal(lh_model_file_start_digests(file, 2, "", NULL, NULL, NULL), LH_OK);
        lh_model_file_close(file);
    }
}

static void errors_name_the_file(void **state) {
    (void)state;
    lh_model_file *file;
    lh_error error;
    assert_int_equal(lh_model_file_open("/nonexistent/model.gguf", &file, &error),
                     LH_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "/nonexistent/model.gguf"));
    assert_int_not_equal(lh_model_file_open("/proc/self/exe", &file, &error), LH_OK);
}

/* What the planner counts is what the file holds. */
static void the_profile_adds_up(void **state) {
    (void)state;
    tiny_llama tiny = tiny_llama_default();
    for (int tied = 0; tied < 2; tied++) {
        tiny.head_tied = tied != 0;
        lh_model_file *file = open_tiny(&tiny);
        const lh_gguf *gguf = lh_model_file_gguf(file);
        lh_model_profile profile;
        assert_int_equal(lh_model_profile_read(gguf, &profile, NULL), LH_OK);
        assert_int_equal(profile.layers, tiny.layers);
        assert_int_equal(profile.width, tiny.width);
        assert_int_equal(profile.context, tiny.context);
        assert_int_equal(profile.vocabulary, tiny.vocabulary);
        uint64_t counted = profile.embedding_bytes + profile.head_bytes, held = 0;
        for (uint32_t i = 0; i < profile.layers; i++)
            counted += profile.layer_bytes[i];
        for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++)
            held += lh_gguf_tensor_at(gguf, i)->bytes;
        assert_int_equal(counted, held + (tied ? profile.embedding_bytes : 0));
        assert_int_equal(profile.layer_bytes[0], profile.layer_bytes[1]);
        lh_model_file_close(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_gets_its_digest),
        cmocka_unit_test(the_header_is_the_identity),
        cmocka_unit_test(a_long_header_is_read_whole),
        cmocka_unit_test(a_file_that_is_cut_has_no_digests),
        cmocka_unit_test(digests_outlive_the_gateway),
        cmocka_unit_test(closing_does_not_wait_for_the_digests),
        cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(the_profile_adds_up),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
