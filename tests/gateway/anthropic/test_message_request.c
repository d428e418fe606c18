/* Bodies of /v1/messages: what is refused and by which name, and which conversation blocks become.
 */
#include "gateway/anthropic/message_request.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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
    return lh_anthropic_request_parse(json_of(text), LH_OPENAI_MESSAGES, &limits, request, error);
}

#define WITH(fields)       "{'messages':[{'role':'user','content':'x'}]," fields "}"
#define BLOCK(role, block) "{'messages':[{'role':'" role "','content':[" block "]}]}"
#define F                  "{'name':'f','input_schema':{'type':'object'}}"

static const struct {
    const char *body, *param; /* param NULL: it is taken */
} rows[] = {
    {"{}", "messages"},
    {"{'messages':[]}", "messages"},
    {"{'messages':5}", "messages"},
    {"{'messages':[5]}", "messages[0]"},
    {"{'messages':[{'content':'x'}]}", "messages[0].role"},
    {"{'messages':[{'role':'robot','content':'x'}]}", "messages[0].role"},
    {"{'messages':[{'role':'user'}]}", "messages[0].content"},
    {"{'messages':[{'role':'user','content':5}]}", "messages[0].content"},
    {"{'messages':[{'role':'user','content':[]}]}", NULL},
    {"{'messages':[{'role':'user','content':null}]}", NULL},
    {"{'messages':[{'role':'system','content':[]}]}", "messages"}, /* hold nothing */
    {BLOCK("user", "5"), "messages[0].content[0].type"},
    {BLOCK("user", "{'type':'text'}"), "messages[0].content[0].text"},
    {BLOCK("user", "{'type':'text','text':'x','cache_control':{}}"), NULL},
    {BLOCK("user", "{'type':'image','source':{}}"), "messages[0].content[0].type"},
    {BLOCK("user", "{'type':'tool_use','id':'c','name':'f','input':{}}"),
     "messages[0].content[0].type"},
    {BLOCK("assistant", "{'type':'tool_result','tool_use_id':'c'}"), "messages[0].content[0].type"},
    {BLOCK("assistant", "{'type':'redacted_thinking','data':'x'}"), NULL},
    {BLOCK("assistant", "{'type':'server_tool_use','id':'s','name':'web_search','input':{}}"),
     NULL},
    {BLOCK("assistant", "{'type':'web_search_tool_result','tool_use_id':'s','content':[]}"), NULL},
    {BLOCK("assistant", "{'type':'of_next_year'}"), NULL},
    {BLOCK("user", "{'type':'redacted_thinking','data':'x'}"), "messages[0].content[0].type"},
    {BLOCK("user", "{'type':'document','source':{'type':'text','data':'x'}}"), NULL},
    {BLOCK("user", "{'type':'document','source':{'type':'base64','data':'x'}}"),
     "messages[0].content[0].source"},
    {BLOCK("user", "{'type':'document','source':{'type':'content','content':[{'type':'image'}]}}"),
     "messages[0].content[0].source"},
    {BLOCK("user", "{'type':'document'}"), "messages[0].content[0].source"},
    {BLOCK("user", "{'type':'search_result','source':'s','content':[{'type':'text','text':'x'}]}"),
     NULL},
    {BLOCK("assistant", "{'type':'thinking','signature':''}"), "messages[0].content[0].thinking"},
    {BLOCK("assistant", "{'type':'tool_use','name':'f','input':{}}"), "messages[0].content[0].id"},
    {BLOCK("assistant", "{'type':'tool_use','id':'c','name':'a\\nb','input':{}}"),
     "messages[0].content[0].name"},
    {BLOCK("assistant", "{'type':'tool_use','id':'c','name':'mcp.a/b','input':{}}"), NULL},
    {BLOCK("assistant", "{'type':'tool_use','id':'c','name':'f','input':'{}'}"),
     "messages[0].content[0].input"},
    {BLOCK("assistant", "{'type':'tool_use','id':'c','name':'f'}"), NULL},
    {BLOCK("assistant", "{'type':'tool_use','id':'c','name':'f','input':null}"), NULL},
    {BLOCK("assistant", "{'type':'tool_use','id':'c','name':'f','input':' '}"), NULL},
    {BLOCK("assistant", "{'type':'tool_use','id':'c','name':'f','input':5}"),
     "messages[0].content[0].input"},
    {BLOCK("user", "{'type':'tool_result'}"), "messages[0].content[0].tool_use_id"},
    {BLOCK("user", "{'type':'tool_result','tool_use_id':'c','content':[{'type':'image'}]}"), NULL},
    {BLOCK("user", "{'type':'tool_result','tool_use_id':'c','content':[5]}"),
     "messages[0].content[0].content[0]"},
    {BLOCK("user", "{'type':'tool_result','tool_use_id':'c'}"), NULL},
    {WITH("'system':5"), "system"},
    {WITH("'system':[{'type':'image'}]"), "system[0]"},
    {WITH("'max_tokens':0"), "max_tokens"},
    {WITH("'max_tokens':1,'n':3"), NULL}, /* nobody knows it here */
    {WITH("'stop_sequences':['']"), "stop_sequences[0]"},
    {WITH("'stop_sequences':5"), "stop_sequences"},
    {WITH("'metadata':{'user_id':null}"), NULL},
    {WITH("'metadata':{'user_id':5}"), "metadata.user_id"},
    {WITH("'service_tier':'priority'"), "service_tier"},
    {WITH("'thinking':{}"), "thinking.type"},
    {WITH("'thinking':{'type':'enabled','budget_tokens':0}"), "thinking.budget_tokens"},
    {WITH("'thinking':{'type':'between_tools'}"), "thinking.type"},
    {WITH("'thinking':{'type':'adaptive','display':'omitted'}"), NULL},
    {WITH("'thinking':{'type':'enabled','budget_tokens':1,'display':'summarized'}"), NULL},
    {WITH("'thinking':{'type':'adaptive','display':'sung'}"), "thinking.display"},
    {WITH("'context_management':{'edits':[{'type':'clear_tool_uses_20250919'}]}"), NULL},
    {WITH("'context_management':5"), "context_management"},
    {WITH("'output_config':{'effort':'tiny'}"), "output_config.effort"},
    {WITH("'output_config':{'format':{'type':'json_schema'}}"), "output_config.format.schema"},
    {WITH("'output_config':{'format':{'type':'json_schema','schema':{}}}"), NULL},
    {WITH("'container':'c'"), "container"},
    {WITH("'mcp_servers':[5]"), "mcp_servers"},
    {WITH("'tools':[" F "]"), NULL},
    {WITH("'tools':[{'type':'custom','name':'f'}]"), NULL},
    {WITH("'tools':[{'type':'bash_20250124','name':'bash'}," F "]"), NULL},
    {WITH("'tools':[{'type':'web_search_20250305','name':'web_search'}]"), NULL},
    {WITH("'tools':[{'type':'web_search_20250305','name':'w'}],'tool_choice':{'type':'any'}"),
     "tool_choice"},
    {WITH("'tools':[{'type':'web_search_20250305','name':'w'}," F
          "],'tool_choice':{'type':'tool','name':'w'}"),
     "tool_choice"},
    {WITH("'tools':[{'name':'f','input_schema':5}]"), "tools[0].input_schema"},
    {WITH("'tools':[" F "],'tool_choice':{'type':'tool'}"), "tool_choice.name"},
    {WITH("'tools':[" F "],'tool_choice':{'type':'tool','name':'g'}"), "tool_choice"},
    {WITH("'tools':[" F "],'tool_choice':{'type':'all'}"), "tool_choice.type"},
    {WITH("'tools':[" F "],'tool_choice':'auto'"), "tool_choice"},
    {WITH("'tool_choice':{'type':'any'}"), "tool_choice"},
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
    "{'system':[{'type':'text','text':'Be'},{'type':'text','text':'brief.'}],"
    "'thinking':{'type':'disabled'},'stop_sequences':['a'],'messages':["
    "{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]},"
    "{'role':'assistant','content':[{'type':'thinking','thinking':'Hm','signature':''},"
    "{'type':'text','text':'Wait.'},{'type':'tool_use','id':'c1','name':'f','input':{'x':1}},"
    "{'type':'tool_use','id':'c2','name':'f','input':{}}]},"
    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'c1','content':'one'},"
    "{'type':'tool_result','tool_use_id':'c2','content':[{'type':'text','text':'2'}]},"
    "{'type':'text','text':'So?'}]},{'role':'assistant','content':'Well'}],"
    "'tools':[" F "],'tool_choice':{'type':'any','disable_parallel_tool_use':true}}";

static void blocks_become_one_conversation(void **state) {
    (void)state;
    static const struct {
        const char *role, *content, *thought;
        size_t calls;
    } wanted[] = {{"system", "Be\nbrief.", NULL, 0},
                  {"user", "a\nb", NULL, 0},
                  {"assistant", "Wait.", "Hm", 2},
                  {"tool", "one", NULL, 0},
                  {"tool", "2", NULL, 0},
                  {"user", "So?", NULL, 0},
                  {"assistant", "Well", NULL, 0}};
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
    const json_t *called =
        json_object_get(json_array_get(request.messages[2].tool_calls, 0), "function");
    assert_string_equal(json_string_value(json_object_get(called, "arguments")), "{\"x\":1}");
    assert_string_equal(json_string_value(request.reasoning_effort), "none");
    assert_true(request.continues_last_message && !request.has_answer_head);
    assert_int_equal(request.tools.choice, LH_TOOL_CHOICE_REQUIRED);
    assert_true(request.tools.has_one_call);
    lh_openai_request_drop_text(&request);
    assert_int_equal(request.parameters.stop_count, 1);
    assert_string_equal(request.parameters.stops[0].bytes, "a");
    lh_openai_request_reset(&request);
}

/* A session of Claude Code that was resumed. */
static const char resumed[] =
    "{'system':[{'type':'text','text':'x-anthropic-billing-header: cc_version=2; cch=1a2b3;'},"
    "{'type':'text','text':'Be brief.'}],'context_management':{'edits':[]},"
    "'thinking':{'type':'adaptive','display':'omitted'},'messages':["
    "{'role':'user','content':[{'type':'document','title':'t','source':{'type':'content',"
    "'content':[{'type':'text','text':'p'},{'type':'text','text':'q'}]}},"
    "{'type':'text','text':'Find it'}]},"
    "{'role':'assistant','content':[{'type':'redacted_thinking','data':'x'},"
    "{'type':'server_tool_use','id':'s','name':'web_search','input':{}},"
    "{'type':'web_search_tool_result','tool_use_id':'s','content':[]}]},"
    "{'role':'user','content':null},"
    "{'role':'assistant','content':[{'type':'tool_use','id':'c','name':'find','input':null}]},"
    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'c','content':["
    "{'type':'tool_reference','tool_name':'mcp.files/read'},{'type':'image','source':{}},"
    "{'type':'document','source':{'type':'text','data':'D'}},{'type':'document'}]}]}],"
    "'tools':[{'type':'web_search_20250305','name':'web_search'}," F "]}";

static void a_resumed_session_goes_on(void **state) {
    (void)state;
    static const char *const wanted[][2] = {{"system", "Be brief."},
                                            {"user", "p\nq\nFind it"},
                                            {"assistant", ""},
                                            {"user", ""},
                                            {"assistant", ""},
                                            {"tool",
                                             "mcp.files/read\n"
                                             "[image, not shown: this model reads text]\nD\n"
                                             "[document, not shown: this model reads "
                                             "text]"}};
    static const char *const left_out[] = {"context_management",
                                           "tools[] of type web_search_20250305",
                                           "system[] x-anthropic-billing-header",
                                           "messages[].content[] of type redacted_thinking",
                                           "messages[].content[] of type server_tool_use",
                                           "messages[].content[] of type web_search_tool_result",
                                           "messages[].content[].content[] of type image",
                                           "messages[].content[].content[] of type document"};
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(resumed, &request, &error));
    assert_int_equal(request.message_count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < request.message_count; i++) {
        const lh_chat_message *got = &request.messages[i];
        assert_string_equal(got->role, wanted[i][0]);
        assert_string_equal(got->content ? got->content : "", wanted[i][1]);
        assert_int_equal(got->content_length, strlen(wanted[i][1]));
    }
    const json_t *called =
        json_object_get(json_array_get(request.messages[4].tool_calls, 0), "function");
    assert_string_equal(json_string_value(json_object_get(called, "arguments")), "{}");
    assert_int_equal(json_array_size(request.tools.list), 1);
    assert_true(request.hides_thoughts);
    assert_non_null(json_object_get(request.told, "context_management"));
    for (size_t i = 0; i < request.left_out.count; i++)
        assert_string_equal(request.left_out.kinds[i], left_out[i]);
    assert_int_equal(request.left_out.count, sizeof left_out / sizeof *left_out);
    lh_openai_request_reset(&request);
}

static void there_may_be_many_tools(void **state) {
    (void)state;
    json_t *tools = json_array(), *body = json_of("{'messages':[{'role':'user','content':'x'}]}");
    for (int i = 0; i < 150; i++) {
        char name[160];
        snprintf(name, sizeof name, "mcp__%0110d/file.read_%d", i, i);
        json_array_append_new(
            tools, json_pack("{s:s, s:{s:s}}", "name", name, "input_schema", "type", "object"));
    }
    json_object_set_new(body, "tools", tools);
    lh_openai_request request;
    lh_openai_error error;
    assert_true(lh_anthropic_request_parse(body, LH_OPENAI_MESSAGES, &limits, &request, &error));
    assert_int_equal(json_array_size(request.tools.list), 150);
    lh_openai_request_reset(&request);
}

static void without_memory_it_is_an_error(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    for (size_t n = 1, turn = 0;; n++) {
        json_t *body = json_of(turn ? resumed : whole);
        failing_malloc_arm(n);
        bool parsed =
            lh_anthropic_request_parse(body, LH_OPENAI_MESSAGES, &limits, &request, &error);
        bool failed = failing_malloc_disarm();
        lh_openai_request_reset(&request);
        assert_int_equal(parsed, !failed);
        if (!failed && turn++)
            break;
        n = failed ? n : 0;
        assert_true(!failed || error.status == 500);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_bodies_are_refused_by_name),
        cmocka_unit_test(blocks_become_one_conversation),
        cmocka_unit_test(a_resumed_session_goes_on),
        cmocka_unit_test(there_may_be_many_tools),
        cmocka_unit_test(without_memory_it_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
