/* Bodies of /v1/responses: what is refused and by which name, which conversation items become, and
 * what the answer repeats. */
#include "gateway/openai/custom_tool.h"
#include "gateway/responses/response_tools.h"
#include "gateway/responses/responses_request.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_openai_limits limits = {
    .model = "tiny", .vocabulary = 288, .sequences_max = 48, .sampling = &lh_sampling_api_defaults};

/* ' for ". */
static json_t *json_of(const char *text) {
    char *copy = strdup(text);
    for (char *at = copy; *at; at++)
        if (*at == '\'')
            *at = '"';
    json_t *body = json_loads(copy, 0, NULL);
    assert_non_null(body);
    free(copy);
    return body;
}

static bool parse(const char *text, lh_openai_request *request, lh_openai_error *error) {
    return lh_responses_request_parse(json_of(text), LH_OPENAI_RESPONSES, &limits, request, error);
}

#define WITH(fields) "{'input':'x'," fields "}"
#define ITEMS(items) "{'input':[" items "]}"
#define F            "{'type':'function','name':'f','parameters':{'type':'object'}}"

static const struct {
    const char *body, *param; /* param NULL: it is taken */
} rows[] = {
    {"{}", "input"},
    {"{'input':null}", "input"},
    {"{'input':[]}", "input"},
    {"{'input':5}", "input"},
    {"{'input':''}", NULL},
    {ITEMS("5"), "input[0]"},
    {ITEMS("{}"), "input[0].role"},
    {ITEMS("{'role':'user'}"), "input[0].content"},
    {ITEMS("{'role':'tool','content':'x'}"), "input[0].role"},
    {ITEMS("{'role':'user','content':5}"), "input[0].content"},
    {ITEMS("{'role':'user','content':[{'type':'input_text','text':'x'}]}"), NULL},
    {ITEMS("{'role':'user','content':[{'type':'input_image'}]}"), "input[0].content[0]"},
    {ITEMS("{'type':'item_reference','id':'x'}"), "input[0].type"},
    {ITEMS("{'type':'item_reference','id':'rs_1'},{'role':'user','content':'x'}"), NULL},
    {ITEMS("{'type':'web_search_call','id':'w','status':'completed'}"), "input"},
    {ITEMS("{'type':'web_search_call','id':'w'},{'type':'ghost_snapshot'},{'type':'compaction',"
           "'encrypted_content':'x'},{'role':'user','content':'x'}"),
     NULL},
    {ITEMS("{'type':'custom_tool_call','name':'f','input':'x'}"), "input[0].call_id"},
    {ITEMS("{'type':'custom_tool_call','call_id':'c','name':'f','input':'x'},{'type':"
           "'custom_tool_call_output','call_id':'c','output':'y'}"),
     NULL},
    {ITEMS("{'type':'local_shell_call','call_id':'c','action':{'type':'exec','command':['ls']}},"
           "{'type':'local_shell_call_output','call_id':'c','output':'y'}"),
     NULL},
    {ITEMS("{'type':'agent_message','author':'a','content':[{'type':'encrypted_content',"
           "'encrypted_content':'x'},{'type':'input_text','text':'x'}]}"),
     NULL},
    {ITEMS("{'type':'function_call_output','call_id':'c','output':[{'type':'input_image',"
           "'image_url':'data:x'}]}"),
     NULL},
    {ITEMS("{'role':'user','content':[{'type':'input_image'}]},{'role':'assistant','content':"
           "'x'},{'role':'user','content':'y'}"),
     NULL},
    {ITEMS("{'type':'function_call','name':'f','arguments':'{}'}"), "input[0].call_id"},
    {ITEMS("{'type':'function_call','call_id':'c','arguments':'{}'}"), "input[0].name"},
    {ITEMS("{'type':'function_call','call_id':'c','name':'a\\nb','arguments':'{}'}"),
     "input[0].name"},
    {ITEMS("{'type':'function_call','call_id':'c','name':'f','arguments':{}}"),
     "input[0].arguments"},
    {ITEMS("{'type':'function_call','call_id':'c','name':'f','arguments':'{}'}"), NULL},
    {ITEMS("{'type':'function_call_output','output':'x'}"), "input[0].call_id"},
    {ITEMS("{'type':'function_call_output','call_id':'c'}"), NULL},
    {ITEMS("{'type':'function_call_output','call_id':'c','output':[{'type':'input_image'}]}"),
     NULL},
    {ITEMS("{'type':'function_call','call_id':'c','name':'f','arguments':null}"), NULL},
    {ITEMS("{'role':'user','content':[{'type':'input_image'}]}"), "input[0].content[0]"},
    {ITEMS("{'type':'reasoning','summary':[]}"), "input"}, /* nothing is said */
    {ITEMS("{'type':'reasoning','encrypted_content':'x','summary':[]},{'role':'user','content':"
           "'x'}"),
     NULL},
    {WITH("'instructions':5"), "instructions"},
    {WITH("'max_output_tokens':0"), "max_output_tokens"},
    {WITH("'max_output_tokens':3,'min_tokens':4"), "min_tokens"},
    {WITH("'max_tool_calls':3"), NULL},
    {WITH("'n':3"), NULL}, /* nobody knows it here */
    {WITH("'store':false"), NULL},
    {WITH("'store':true"), NULL},
    {WITH("'previous_response_id':'r'"), "previous_response_id"},
    {WITH("'conversation':'c'"), "conversation"},
    {WITH("'background':true"), "background"},
    {WITH("'truncation':'auto'"), NULL},
    {WITH("'truncation':'some'"), "truncation"},
    {WITH("'truncation':'disabled'"), NULL},
    {WITH("'include':['web_search_call.action.sources']"), NULL},
    {WITH("'include':[5]"), "include[0]"},
    {WITH("'include':5"), "include"},
    {WITH("'top_logprobs':21"), "top_logprobs"},
    {WITH("'reasoning':{'effort':'huge'}"), "reasoning.effort"},
    {WITH("'reasoning':5"), "reasoning"},
    {WITH("'text':{'format':{'type':'xml'}}"), "text.format.type"},
    {WITH("'text':{'format':{}}"), "text.format.type"},
    {WITH("'text':{'format':{'type':'json_schema','schema':{}}}"), "text.format.name"},
    {WITH("'text':{'format':{'type':'json_schema','name':'n','schema':5}}"), "text.format.schema"},
    {WITH("'text':{'format':{'type':'json_object'}},'ignore_eos':true"), "ignore_eos"},
    {WITH("'tools':[" F "]"), NULL},
    {WITH("'tools':[{'type':'web_search'},{'type':'local_shell'},{'type':'image_generation'}]"),
     NULL},
    {WITH("'tools':[{'type':'web_search'}],'tool_choice':'required'"), "tool_choice"},
    {WITH("'tools':[{'type':'namespace','name':'n','tools':[" F "]}]"), NULL},
    {WITH("'tools':[{'type':'namespace','name':'n','tools':5}]"), "tools[0].tools"},
    {WITH("'tools':[{'type':'custom','name':'c'}]"), NULL},
    {WITH("'tools':[{'type':'custom','name':'c','format':{'type':'text'}}]"), NULL},
    {WITH("'tools':[{'type':'custom','name':'c','format':{'type':'grammar','syntax':'bnf',"
          "'definition':'x'}}]"),
     "tools[0].format"},
    {WITH("'tools':[{'type':'custom','name':'c'}],'tool_choice':{'type':'custom','name':'c'}"),
     NULL},
    {WITH("'tools':[{'name':'f'}]"), "tools[0]"},
    {WITH("'tools':[{'type':'function','name':'f','parameters':5}]"), "tools[0].parameters"},
    {WITH("'tools':[" F "],'tool_choice':{'type':'function','name':'g'}"), "tool_choice"},
    {WITH("'tools':[" F "],'tool_choice':{'type':'allowed_tools'}"), "tool_choice"},
    {WITH("'tools':[" F "],'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[" F "]}"),
     NULL},
    {WITH("'tool_choice':'required'"), "tool_choice"},
};

static void wrong_bodies_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_openai_request request;
        lh_openai_error error;
        bool taken = parse(rows[i].body, &request, &error);
        if (taken != !rows[i].param)
            print_error("%s: %s\n", rows[i].body, error.message);
        assert_int_equal(taken, !rows[i].param);
        if (!taken)
            assert_string_equal(error.param, rows[i].param);
        lh_openai_request_reset(&request);
    }
}

static const char whole[] =
    "{'instructions':'Be brief.','input':[{'role':'developer','content':'Now.'},"
    "{'role':'user','content':[{'type':'input_text','text':'a'},{'type':'input_text','text':'b'}]},"
    "{'type':'reasoning','summary':[],'content':[{'type':'reasoning_text','text':'Hm'}]},"
    "{'type':'message','role':'assistant','content':[{'type':'output_text','text':'Wait.'}]},"
    "{'type':'function_call','call_id':'c1','name':'f','arguments':'{}'},"
    "{'type':'function_call','call_id':'c2','name':'f','arguments':'{}'},"
    "{'type':'function_call_output','call_id':'c1','output':'one'},"
    "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text','text':'2'}]},"
    "{'role':'assistant','content':'So.'},{'role':'assistant','content':'Well.'}],"
    "'tools':[" F "],'tool_choice':{'type':'function','name':'f'},'parallel_tool_calls':false}";

static void items_become_one_conversation(void **state) {
    (void)state;
    static const struct {
        const char *role, *content, *thought;
        size_t calls;
    } wanted[] = {{"system", "Be brief.\n\nNow.", NULL, 0},
                  {"user", "a\nb", NULL, 0},
                  {"assistant", "Wait.", "Hm", 2},
                  {"tool", "one", NULL, 0},
                  {"tool", "2", NULL, 0},
                  {"assistant", "So.", NULL, 0},
                  {"assistant", "Well.", NULL, 0}};
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(whole, &request, &error));
    assert_int_equal(request.message_count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < request.message_count; i++) {
        const lh_chat_message *got = &request.messages[i];
        assert_string_equal(got->role, wanted[i].role);
        assert_int_equal(got->content_length, strlen(wanted[i].content));
        assert_memory_equal(got->content, wanted[i].content, got->content_length);
        assert_int_equal(got->thought_length, wanted[i].thought ? strlen(wanted[i].thought) : 0);
        assert_int_equal(json_array_size(got->tool_calls), wanted[i].calls);
    }
    assert_string_equal(request.messages[4].tool_call_id, "c2");
    assert_int_equal(request.tools.choice, LH_TOOL_CHOICE_NAMED);
    assert_true(request.tools.has_one_call);
    const json_t *function = json_object_get(json_array_get(request.tools.list, 0), "function");
    assert_string_equal(json_string_value(json_object_get(function, "name")), "f");
    lh_openai_request_reset(&request);
}

/* What the model knows of a client's tools. */
static void tools_of_all_kinds_are_functions(void **state) {
    (void)state;
    static const char body[] =
        "{'input':[{'type':'additional_tools','role':'developer','tools':[{'type':'function',"
        "'name':'late'}]},{'type':'function_call','call_id':'c','namespace':'n','name':'f',"
        "'arguments':'{}'},{'type':'custom_tool_call','call_id':'d','name':'patch','input':"
        "'a\\\"b'},{'type':'function_call_output','call_id':'c','output':'y'}],'tools':[{'type':"
        "'namespace','name':'n','tools':[" F "]},{'type':'custom','name':'patch','description':"
        "'d','format':{'type':'grammar','syntax':'regex','definition':'a.*'}},{'type':"
        "'web_search'}],'tool_choice':{'type':'custom','name':'patch'}}";
    static const char *const names[] = {"n__f", "patch", "late"};
    lh_openai_request request;
    lh_openai_error error;
    if (!parse(body, &request, &error))
        fail_msg("%s", error.message);
    assert_int_equal(json_array_size(request.tools.list), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t *function = json_object_get(json_array_get(request.tools.list, i), "function");
        assert_string_equal(json_string_value(json_object_get(function, "name")), names[i]);
    }
    assert_string_equal(request.tools.name, "patch");
    json_t *kind = json_object_get(request.tool_kinds, "n__f");
    assert_string_equal(json_string_value(json_object_get(kind, "namespace")), "n");
    kind = json_object_get(request.tool_kinds, "patch");
    assert_string_equal(json_string_value(json_object_get(kind, "type")), "custom");
    assert_non_null(json_object_get(kind, "grammar"));
    json_t *calls = (json_t *)request.messages[0].tool_calls;
    json_t *first = json_object_get(json_array_get(calls, 0), "function"),
           *second = json_object_get(json_array_get(calls, 1), "function");
    assert_string_equal(json_string_value(json_object_get(first, "name")), "n__f");
    assert_string_equal(json_string_value(json_object_get(second, "arguments")),
                        "{\"input\": \"a\\\"b\"}");
    assert_int_equal(request.left_out.count, 1);
    assert_string_equal(request.left_out.kinds[0], "tools[] of type web_search");
    lh_openai_request_reset(&request);
}

static void the_text_of_a_custom_call_is_found(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"{\"input\": \"a\\nb\"}", "a\nb"},
                                           {"{\"input\": \"a\\nb", "a\nb"},
                                           {"{\"input\": \"a\\", "a"},
                                           {"{\"input\": \"a\\u00", "a"},
                                           {"{\"patch\": \"x\"}", "x"},
                                           {"{\"n\": 5}", "{\"n\": 5}"},
                                           {"{\"input\": ", ""},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *input = lh_openai_custom_input(cases[i][0], strlen(cases[i][0]));
        assert_string_equal(json_string_value(input), cases[i][1]);
        json_decref(input);
    }
}

static void the_answer_repeats_its_request(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(whole, &request, &error));
    lh_openai_request_drop_text(&request);
    assert_string_equal(json_string_value(json_object_get(request.told, "instructions")),
                        "Be brief.");
    assert_true(json_is_false(json_object_get(request.told, "store")));
    assert_true(json_is_false(json_object_get(request.told, "parallel_tool_calls")));
    assert_true(json_is_null(json_object_get(request.told, "max_output_tokens")));
    assert_int_equal(json_array_size(json_object_get(request.told, "tools")), 1);
    lh_openai_request_reset(&request);
}

static void without_memory_it_is_an_error(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    for (size_t n = 1;; n++) {
        json_t *body = json_of(whole);
        failing_malloc_arm(n);
        bool parsed =
            lh_responses_request_parse(body, LH_OPENAI_RESPONSES, &limits, &request, &error);
        bool failed = failing_malloc_disarm();
        lh_openai_request_reset(&request);
        assert_int_equal(parsed, !failed);
        if (!failed)
            break;
        assert_int_equal(error.status, 500);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_bodies_are_refused_by_name),
        cmocka_unit_test(items_become_one_conversation),
        cmocka_unit_test(tools_of_all_kinds_are_functions),
        cmocka_unit_test(the_text_of_a_custom_call_is_found),
        cmocka_unit_test(the_answer_repeats_its_request),
        cmocka_unit_test(without_memory_it_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
