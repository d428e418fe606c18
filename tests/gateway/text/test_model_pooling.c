/* How a file's word for pooling is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/text/model_pooling.h"
#include "tests/support/gguf_writer.h"

#include <stdlib.h>

static lh_model_pooling read_from(gguf_writer *writer) {
    size_t length;
    lh_gguf *gguf;
    uint8_t *bytes = gguf_writer_finish(writer, &length);
    assert_int_equal(lh_gguf_parse(bytes, length, length, &gguf, NULL), LH_OK);
    lh_model_pooling pooling = lh_model_pooling_read(gguf);
    lh_gguf_destroy(gguf);
    free(bytes);
    gguf_writer_destroy(writer);
    return pooling;
}

static void each_number_has_its_kind(void **state) {
    (void)state;
    static const lh_model_pooling_kind kinds[] = {
        LH_MODEL_POOLS_MEAN, LH_MODEL_POOLS_MEAN,      LH_MODEL_POOLS_FIRST,
        LH_MODEL_POOLS_LAST, LH_MODEL_POOLS_OTHERWISE, LH_MODEL_POOLS_OTHERWISE};
    for (uint8_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        gguf_writer *writer = gguf_writer_create(1);
        gguf_writer_text(writer, "general.architecture", "qwen3");
        gguf_writer_u8(writer, "qwen3.pooling_type", i);
        assert_int_equal(read_from(writer).kind, kinds[i]);
    }
}

static void a_file_that_says_nothing_means_the_mean(void **state) {
    (void)state;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_text(writer, "general.architecture", "qwen3");
    gguf_writer_u8(writer, "llama.pooling_type", 3);
    lh_model_pooling pooling = read_from(writer);
    assert_true(pooling.kind == LH_MODEL_POOLS_MEAN && !pooling.appends_eos);
    assert_int_equal(read_from(gguf_writer_create(1)).kind, LH_MODEL_POOLS_MEAN);
}

static void texts_may_end_with_a_token(void **state) {
    (void)state;
    gguf_writer *writer = gguf_writer_create(1);
    gguf_writer_bool(writer, "tokenizer.ggml.add_eos_token", true);
    assert_true(read_from(writer).appends_eos);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_has_its_kind),
        cmocka_unit_test(a_file_that_says_nothing_means_the_mean),
        cmocka_unit_test(texts_may_end_with_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
