/* Lists of a model's layers in a folder, beside files that are there, or are not. */
#include "worker/weights/weight_inventory.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/tiny_llama.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LAYERS = 6, FILES = 2 * LAYERS };

static char folder[] = "/tmp/longhaul-test-XXXXXX";
static lh_layer_file files[FILES];
static lh_weight_inventory *inventory;

static char *path_of(uint32_t file, char path[128]) {
    char digest[LH_SHA256_HEX_BYTES];
    lh_sha256_render(files[file].digest, digest);
    snprintf(path, 128, "%s/%s", folder, digest);
    return path;
}

static void write_file(const char *path, const char *bytes, size_t length) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static void put(uint32_t file) {
    char path[128];
    write_file(path_of(file, path), "0123456789abcdef", files[file].bytes);
}

/* Of a model whose header's digest is 64 times this digit. */
static const char *model_of(char digit) {
    static char model[LH_MODEL_DIGEST_BYTES];
    memset(model, digit, sizeof model - 1);
    return model;
}

static int set_up(void **state) {
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (uint32_t i = 0; i < FILES; i++) {
        files[i] = (lh_layer_file){.layer = i / 2, .bytes = 1 + i};
        memset(files[i].digest, (int)i + 1, sizeof files[i].digest);
    }
    assert_int_equal(lh_weight_inventory_create(folder, NULL, &inventory, NULL), LH_OK);
    return 0;
}

static int tear_down(void **state) {
    char command[64];
    (void)state;
    lh_weight_inventory_destroy(inventory);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void note(const char *model) {
    assert_int_equal(lh_weight_inventory_note(inventory, model, files, FILES, NULL), LH_OK);
}

static void assert_cached(char digit, const char *layers) {
    lh_cached_layers models[LH_CACHED_MODELS_MAX];
    char text[LH_CACHED_TEXT_BYTES] = "";
    uint32_t count = lh_weight_inventory_read(inventory, models);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(models[i].model, model_of(digit)) == 0)
            lh_cached_layers_render(&models[i], text);
    assert_string_equal(text, layers);
}

static void a_layer_is_here_when_all_its_files_are(void **state) {
    char path[128];
    (void)state;
    assert_cached('a', "");
    note(model_of('a'));
    for (uint32_t i = 0; i < 5; i++)
        put(i);
    put(8);
    put(9);
    assert_cached('a', ""); /* it has not looked again */
    lh_weight_inventory_refresh(inventory);
    assert_cached('a', "0-1,4-4");
    unlink(path_of(1, path));
    put(5);
    lh_weight_inventory_refresh(inventory);
    assert_cached('a', "1-2,4-4");
    write_file(path_of(8, path), "x", 1); /* another length */
    lh_weight_inventory_refresh(inventory);
    assert_cached('a', "1-2");
}

/* As after a start, before anybody has spoken of a model. */
static void another_process_knows_it_at_once(void **state) {
    (void)state;
    note(model_of('b'));
    put(10);
    put(11);
    lh_weight_inventory_destroy(inventory);
    assert_int_equal(lh_weight_inventory_create(folder, "/nowhere.gguf", &inventory, NULL), LH_OK);
    assert_cached('b', "5-5");
}

static void the_models_that_were_known_last_are_told(void **state) {
    char name[128];
    lh_cached_layers models[LH_CACHED_MODELS_MAX];
    (void)state;
    for (uint32_t i = 0; i < FILES; i++)
        put(i);
    for (char digit = '0'; digit < '6'; digit++) {
        note(model_of(digit));
        usleep(20000); /* of a coarse clock */
    }
    note(model_of('1'));
    snprintf(name, sizeof name, "%s/layers-strange", folder);
    write_file(name, "x", 1);
    lh_weight_inventory_refresh(inventory);
    assert_int_equal(lh_weight_inventory_read(inventory, models), LH_CACHED_MODELS_MAX);
    static const char last[] = {'1', '5', '4', '3'};
    for (uint32_t i = 0; i < LH_CACHED_MODELS_MAX; i++)
        assert_string_equal(models[i].model, model_of(last[i]));
}

/* As far as it can be read. */
static void a_list_that_is_damaged_does_no_harm(void **state) {
    static const char *const damaged[] = {"",        "\n",       "0 1",       "0 1 xyz",
                                          "5000 1 ", "-1 -1 -1", "layers 3\n"};
    char path[160];
    (void)state;
    for (uint32_t i = 0; i < FILES; i++)
        put(i);
    snprintf(path, sizeof path, "%s/layers-%s", folder, model_of('c'));
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        write_file(path, damaged[i], strlen(damaged[i]));
        lh_weight_inventory_refresh(inventory);
        assert_cached('c', "");
    }
    note(model_of('c'));
    lh_weight_inventory_refresh(inventory);
    assert_cached('c', "0-5");
    assert_int_equal(truncate(path, 200), 0); /* within the third line */
    lh_weight_inventory_refresh(inventory);
    assert_cached('c', "0-0");
}

static void of_a_local_file_all_layers_are_here(void **state) {
    char path[128];
    lh_cached_layers models[LH_CACHED_MODELS_MAX];
    tiny_llama tiny = tiny_llama_default();
    (void)state;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    tiny_llama_save(&tiny, path);
    lh_weight_inventory_destroy(inventory);
    assert_int_equal(lh_weight_inventory_create(folder, path, &inventory, NULL), LH_OK);
    assert_int_equal(lh_weight_inventory_read(inventory, models), 1);
    assert_int_equal(strlen(models[0].model), LH_MODEL_DIGEST_BYTES - 1);
    assert_int_equal(models[0].run_count, 1);
    assert_int_equal(models[0].runs[0].last, 2);
}

static void what_cannot_be_written_is_said(void **state) {
    lh_error error;
    char command[64];
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        failing_malloc_arm(nth);
        lh_status status = lh_weight_inventory_note(inventory, model_of('d'), files, FILES, &error);
        if (!failing_malloc_disarm())
            break;
        if (status != LH_OK)
            assert_true(status == LH_ERR_NO_MEMORY || status == LH_ERR_IO);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(lh_weight_inventory_note(inventory, model_of('d'), files, FILES, &error),
                     LH_ERR_IO);
    assert_non_null(strstr(error.message, "a list of layers cannot be written"));
    lh_weight_inventory_refresh(inventory);
    assert_cached('d', "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_layer_is_here_when_all_its_files_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_process_knows_it_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_models_that_were_known_last_are_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_list_that_is_damaged_does_no_harm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_a_local_file_all_layers_are_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_is_said, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
