/* Bodies of both endpoints: messages and prompts in all their shapes, and what only one endpoint
 * has. */
#include "gateway/openai/request.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_openai_limits limits = {.model = "tiny",
                                        .vocabulary = 288,
                                        .choices_max = 16,
                                        .prompts_max = 4,
                                        .sequences_max = 48,
                                        .is_traced = true,
                                        .sampling = &lh_sampling_api_defaults};

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

typedef struct table_row {
    const char *body, *param; /* param NULL: it is taken */
} table_row;

/* A tool; a request with these tools; one whose assistant has made these calls. */
#define F               "{'type':'function','function':{'name':'f'}}"
#define NAME_64         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAME_256        NAME_64 NAME_64 NAME_64 NAME_64
#define CALLABLE(tools) "{'messages':[{'role':'user','content':'x'}],'tools':[" tools "]}"
#define CALLED(calls)                                                                              \
    "{'messages':[{'role':'user','content':'x'},{'role':'assistant','content':null,"               \
    "'tool_calls':[" calls "]}]}"

static const table_row chats[] = {
    {"{}", "messages"},
    {"{'messages':null}", "messages"},
    {"{'messages':[]}", "messages"},
    {"{'messages':{}}", "messages"},
    {"{'messages':'hi'}", "messages"},
    {"{'messages':[1]}", "messages[0]"},
    {"{'messages':[{'role':'user'}]}", "messages[0].content"},
    {"{'messages':[{'role':'user','content':null}]}", NULL},
    {"{'messages':[{'role':'user','content':'x'},{'role':'assistant'},{'role':'tool'}]}", NULL},
    {"{'messages':[{'role':'user','content':1}]}", "messages[0].content"},
    {"{'messages':[{'role':'user','content':[]}]}", NULL},
    {"{'messages':[{'role':'user','content':'x'},{'role':'tool','content':[{'type':'image_url',"
     "'image_url':{'url':'data:image/png;base64,AAAA'}}]}]}",
     NULL},
    {"{'messages':[{'content':'x'}]}", "messages[0].role"},
    {"{'messages':[{'role':1,'content':'x'}]}", "messages[0].role"},
    {"{'messages':[{'role':'robot','content':'x'}]}", "messages[0].role"},
    {"{'messages':[{'role':'user','content':''}]}", NULL},
    {"{'messages':[{'role':'user','content':'x','name':'n','extra':{}}]}", NULL},
    {"{'messages':[{'role':'system','content':'s'},{'role':'user','content':'x'},{'role':'tool','"
     "content':'t'}]}",
     NULL},
    {CALLED("{'id':'c','type':'function','function':{'name':'f','arguments':'{}'}}"), NULL},
    {CALLED("{'function':{'name':'f','arguments':''}}"), NULL},
    {CALLED("{'function':{'name':'f','arguments':null}}"), NULL},
    {CALLED("{'function':{'name':'f'}}"), NULL},
    {CALLED(""), NULL},
    {CALLED("{}"), "messages[1].tool_calls[0].function"},
    {CALLED("5"), "messages[1].tool_calls[0]"},
    {CALLED("{'function':{'arguments':'{}'}}"), "messages[1].tool_calls[0].function.name"},
    {CALLED("{'function':{'name':'f','arguments':{}}}"),
     "messages[1].tool_calls[0].function.arguments"},
    {CALLED("{'id':1,'function':{'name':'f','arguments':'{}'}}"), "messages[1].tool_calls[0].id"},
    {"{'messages':[{'role':'user','content':'x'},{'role':'assistant','content':null}]}", NULL},
    {"{'messages':[{'role':'user','content':[{'type':'text','text':'x'}]}]}", NULL},
    {"{'messages':[{'role':'user','content':[{'type':'text'}]}]}", "messages[0].content[0]"},
    {"{'messages':[{'role':'user','content':[{'type':'text','text':1}]}]}",
     "messages[0].content[0]"},
    {"{'messages':[{'role':'user','content':['x']}]}", "messages[0].content[0]"},
    {"{'messages':[{'role':'user','content':[{'type':'text','text':'x'},{'type':'image_url','image_"
     "url':{'url':'http://x'}}]}]}",
     "messages[0].content[1]"},
    {"{'messages':[{'role':'user','content':[{'type':'input_audio'}]}]}", "messages[0].content[0]"},
    {"{'messages':[{'role':'user','content':[{'type':'file'}]}]}", "messages[0].content[0]"},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'text'}}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'json_object'}}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'json_schema',"
     "'json_schema':{'name':'n','strict':true,'schema':{'items':{'uniqueItems':true}}}}}",
     "response_format.json_schema.schema"},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'json_schema',"
     "'json_schema':{'name':'n','schema':{'items':{'uniqueItems':true}}}}}",
     NULL},
    {CALLABLE("{'type':'function','function':{'name':'f','strict':true,'parameters':{'properties':"
              "{'a':{'uniqueItems':true}}}}}"),
     "tools[0].function.parameters"},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'json_schema'}}",
     "response_format.json_schema"},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'json_object'},'tools':"
     "[{"
     "'type':'function','function':{'name':'f'}}]}",
     NULL},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'json_object'},"
     "'ignore_eos':true}",
     "ignore_eos"},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'json_object'},"
     "'min_tokens':1}",
     "min_tokens"},
    {CALLABLE(F "],'tool_choice':'required','min_tokens':1,'x':["), "min_tokens"},
    {CALLABLE(F "],'tool_choice':'required','x':["), NULL},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':{'type':'xml'}}",
     "response_format"},
    {"{'messages':[{'role':'user','content':'x'}],'response_format':'text'}", "response_format"},
    {"{'messages':[{'role':'user','content':'x'}],'modalities':['text']}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'modalities':['text','audio']}", "modalities"},
    {"{'messages':[{'role':'user','content':'x'}],'modalities':'text'}", "modalities"},
    {"{'messages':[{'role':'user','content':'x'}],'modalities':[]}", "modalities"},
    {"{'messages':[{'role':'user','content':'x'}],'chat_template_kwargs':{'a':[1]}}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'chat_template_kwargs':[1]}",
     "chat_template_kwargs"},
    {"{'messages':[{'role':'user','content':'x'}],'add_generation_prompt':1}",
     "add_generation_prompt"},
    {"{'messages':[{'role':'assistant','content':'x'}],'continue_final_message':true}", NULL},
    {"{'messages':[{'role':'assistant','content':'x'}],'continue_final_message':true,"
     "'add_generation_prompt':true}",
     "continue_final_message"},
    {CALLABLE("{}"), "tools[0]"},
    {CALLABLE("{'type':'retrieval'},{'type':'mcp','server_url':'x'}," F), NULL},
    {CALLABLE("{'type':'retrieval'}],'tool_choice':'required','x':["), "tool_choice"},
    {CALLABLE("{'type':'custom'}"), "tools[0]"},
    {CALLABLE("{'type':'custom','custom':{}}"), "tools[0].custom.name"},
    {CALLABLE("{'type':'custom','custom':{'name':'p','format':{'type':'grammar','grammar':{}}}}"),
     "tools[0].custom.format"},
    {CALLABLE("{'type':'custom','custom':{'name':'p','format':{'type':'text'}}}],"
              "'tool_choice':{'type':'custom','custom':{'name':'p'}},'x':["),
     NULL},
    {CALLED("{'id':'c','type':'custom'}"), "messages[1].tool_calls[0].custom"},
    {CALLED("{'id':'c','type':'custom','custom':{'input':'x'}}"),
     "messages[1].tool_calls[0].function.name"},
    {CALLED("{'id':'c','type':'custom','custom':{'name':'p','input':'x'}}"), NULL},
    {CALLABLE("{'type':'function'}"), "tools[0]"},
    {CALLABLE("{'type':'function','function':{}}"), "tools[0].function.name"},
    {CALLABLE("{'type':'function','function':{'name':'a\\nb'}}"), "tools[0].function.name"},
    {CALLABLE("{'type':'function','function':{'name':'a\\u0085b'}}"), "tools[0].function.name"},
    {CALLABLE("{'type':'function','function':{'name':''}}"), "tools[0].function.name"},
    {CALLABLE("{'type':'function','function':{'name':'mcp.a/b c:\u00e9'}}"), NULL},
    {CALLABLE("{'type':'function','function':{'name':'" NAME_256 "'}}"), NULL},
    {CALLABLE("{'type':'function','function':{'name':'" NAME_256 "x'}}"), "tools[0].function.name"},
    {CALLABLE("{'type':'function','function':{'name':'f','parameters':[]}}"),
     "tools[0].function.parameters"},
    {CALLABLE("{'type':'function','function':{'name':'f','strict':1}}"),
     "tools[0].function.strict"},
    {CALLABLE(F ",{'type':'function','function':{'name':'g','description':'d','parameters':{},"
                "'strict':false}}"),
     NULL},
    {CALLABLE(F "],'tool_choice':['auto'"), "tool_choice"},
    {CALLABLE(F "],'tool_choice':'none','x':["), NULL},
    {CALLABLE(F "],'tool_choice':'any','x':["), NULL},
    {CALLABLE(F "],'tool_choice':'some','x':["), "tool_choice"},
    {CALLABLE(F "],'tool_choice':{'type':'function'},'x':["), "tool_choice"},
    {CALLABLE(F "],'tool_choice':{'type':'custom'},'x':["), "tool_choice"},
    {CALLABLE(F "],'tool_choice':{'type':'web_search'},'x':["), "tool_choice"},
    {CALLABLE(F "],'tool_choice':{'type':'auto'},'x':["), NULL},
    {CALLABLE(F "],'tool_choice':{'type':'any'},'x':["), NULL},
    {CALLABLE(F "],'tool_choice':{'type':'function','name':'f'},'x':["), NULL},
    {CALLABLE(F "],'tool_choice':{'type':'tool','name':'f'},'x':["), NULL},
    {CALLABLE(F "],'tool_choice':{'type':'allowed_tools'},'x':["), "tool_choice"},
    {CALLABLE(F "],'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'required',"
                "'tools':[{'type':'function','function':{'name':'f'}}]}},'x':["),
     NULL},
    {CALLABLE(F "],'tool_choice':{'type':'allowed_tools','mode':'required','tools':["
                "{'type':'function','name':'g'}]},'x':["),
     "tool_choice"},
    {CALLABLE(F "],'tool_choice':{'type':'function','function':{'name':'g'}},'x':["),
     "tool_choice"},
    {"{'messages':[{'role':'user','content':'x'}],'tools':[],'tool_choice':'auto'}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'tool_choice':'required'}", "tool_choice"},
    {"{'messages':[{'role':'user','content':'x'}],'tools':{}}", "tools"},
    {"{'messages':[{'role':'user','content':'x'}],'parallel_tool_calls':false}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'parallel_tool_calls':'no'}",
     "parallel_tool_calls"},
    {"{'messages':[{'role':'user','content':'x'}],'function_call':'none'}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'functions':[{}]}", "functions[0].name"},
    {"{'messages':[{'role':'user','content':'x'}],'functions':[]}", NULL},
    {"{'messages':[{'role':'user','content':'x'}],'functions':[{'name':'f'}],'function_call':"
     "{'name':'g'}}",
     "tool_choice"},
    {"{'messages':[{'role':'user','content':'x'}],'functions':[{'name':'f'}],'function_call':"
     "'some'}",
     "function_call"},
    {"{'messages':[{'role':'assistant','content':null,'function_call':{'name':'f','arguments':'{}'"
     "}},{'role':'function','name':'f','content':'x'}]}",
     NULL},
    {"{'messages':[{'role':'assistant','content':null,'function_call':{'arguments':'{}'}}]}",
     "messages[0].function_call.name"},
    {"{'messages':[{'role':'assistant','content':[{'type':'refusal','refusal':'no'},"
     "{'type':'thinking','thinking':'Hm'},{'type':'output_text','text':'x'}]}]}",
     NULL},
    {"{'messages':[{'role':'user','content':'x'}],'think':5}", "think"},
    {"{'messages':[{'role':'user','content':'x'}],'think':'high','enable_thinking':true,"
     "'thinking':{'type':'enabled','budget_tokens':5},'reasoning':{'max_tokens':5}}",
     NULL},
    {"{'messages':[{'role':'user','content':'x'}],'enable_thinking':'no'}", "enable_thinking"},
    {"{'messages':[{'role':'user','content':'x'}],'thinking':{'type':'off'}}", "thinking.type"},
    {"{'messages':[{'role':'user','content':'x'}],'reasoning':{'effort':'huge'}}",
     "reasoning.effort"},
    {"{'messages':[{'role':'user','content':'x'}],'reasoning_effort':'max','verbosity':'low'}",
     NULL},
    {"{'messages':[{'role':'user','content':'x'}],'reasoning_effort':'huge'}", "reasoning_effort"},
    {"{'messages':[{'role':'user','content':'x'}],'temperature':9}", "temperature"},
};

static const table_row completions[] = {
    {"{}", "prompt"},
    {"{'prompt':null}", "prompt"},
    {"{'prompt':''}", "prompt"},
    {"{'prompt':[]}", "prompt"},
    {"{'prompt':['']}", "prompt"},
    {"{'prompt':[[]]}", "prompt"},
    {"{'prompt':[[1],[]]}", "prompt"},
    {"{'prompt':1}", "prompt"},
    {"{'prompt':{}}", "prompt"},
    {"{'prompt':true}", "prompt"},
    {"{'prompt':[null]}", "prompt[0]"},
    {"{'prompt':['a',1]}", "prompt"},
    {"{'prompt':[1,'a']}", "prompt[1]"},
    {"{'prompt':[[1],'a']}", "prompt"},
    {"{'prompt':[1,2.5]}", "prompt[1]"},
    {"{'prompt':[-1]}", "prompt[0]"},
    {"{'prompt':[288]}", "prompt[0]"},
    {"{'prompt':[4294967297]}", "prompt[0]"},
    {"{'prompt':[[1],[2,-7]]}", "prompt[1][1]"},
    {"{'prompt':'a'}", NULL},
    {"{'prompt':['a','b']}", NULL},
    {"{'prompt':[1,2.0,287]}", NULL},
    {"{'prompt':[[1,2],[3]]}", NULL},
    {"{'prompt':['a','b','c','d']}", NULL},
    {"{'prompt':['a','b','c','d','e']}", "prompt"},
    {"{'prompt':['a','b','c','d'],'n':12}", NULL},
    {"{'prompt':['a','b','c','d'],'n':13}", "prompt"},
    {"{'prompt':'a','echo':true}", NULL},
    {"{'prompt':'a','echo':1}", "echo"},
    {"{'prompt':'a','echo':true,'logprobs':1}", NULL},
    {"{'prompt':'a','echo':true,'logprobs':1,'max_tokens':0}", NULL},
    {"{'prompt':'a','prompt_logprobs':1,'max_tokens':0}", "max_tokens"},
    {"{'prompt':'a','best_of':1}", NULL},
    {"{'prompt':'a','best_of':2,'n':2}", NULL},
    {"{'prompt':'a','best_of':2}", "best_of"},
    {"{'prompt':'a','best_of':1,'n':2}", "best_of"},
    {"{'prompt':'a','best_of':21}", "best_of"},
    {"{'prompt':'a','suffix':5}", "suffix"},
    {"{'prompt':'a','logprobs':true}", "logprobs"},
};

static void check_error(const table_row *row, bool taken, const lh_openai_error *error) {
    if (taken != (!row->param))
        fail_msg("%s: %s", row->body, taken ? "taken" : error->message);
    if (!taken) {
        assert_int_equal(error->status, 400);
        if (strcmp(error->param, row->param) != 0)
            fail_msg("%s: param %s", row->body, error->param);
        assert_non_null(error->code);
    }
}

static void check_rows(const table_row *rows, size_t count, lh_openai_endpoint endpoint) {
    for (size_t i = 0; i < count; i++) {
        lh_openai_request request;
        lh_openai_error error;
        bool taken =
            lh_openai_request_parse(json_of(rows[i].body), endpoint, &limits, &request, &error);
        check_error(&rows[i], taken, &error);
        lh_openai_request_reset(&request);
    }
}

static void chat_takes_and_refuses(void **state) {
    (void)state;
    check_rows(chats, sizeof chats / sizeof chats[0], LH_OPENAI_CHAT);
}

static void completions_take_and_refuse(void **state) {
    (void)state;
    check_rows(completions, sizeof completions / sizeof completions[0], LH_OPENAI_COMPLETIONS);
}

static void reads_messages(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(lh_openai_request_parse(
        json_of("{'messages':[{'role':'developer','content':'be "
                "good'},{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':"
                "'b'}]},{'role':'assistant','content':null,'tool_calls':[]}]}"),
        LH_OPENAI_CHAT, &limits, &request, &error));
    assert_int_equal(request.message_count, 3);
    assert_string_equal(request.messages[0].role, "system");
    assert_memory_equal(request.messages[1].content, "a\nb", 3);
    assert_int_equal(request.messages[1].content_length, 3);
    assert_int_equal(request.messages[2].content_length, 0);
    lh_openai_request_reset(&request);
}

/* What an agent repeats of a session: calls without arguments, results that are no text. */
static void what_is_empty_in_the_history_is_empty(void **state) {
    (void)state;
    static const char *const arguments[] = {"null", "''", "' \\n '", "'{}'"};
    static const char marked[] = "a\n[image, not shown: this model reads text]\n"
                                 "[odd, not shown: this model reads text]";
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        char body[512];
        lh_openai_request request;
        lh_openai_error error;
        snprintf(body, sizeof body,
                 "{'messages':[{'role':'user','content':null},{'role':'assistant','content':[],"
                 "'tool_calls':[{'id':'c','function':{'name':'f','arguments':%s}}]},{'role':'tool',"
                 "'tool_call_id':'c','content':[{'type':'text','text':'a'},{'type':'image_url'},"
                 "{'type':'odd'}]}]}",
                 arguments[i]);
        assert_true(
            lh_openai_request_parse(json_of(body), LH_OPENAI_CHAT, &limits, &request, &error));
        const json_t *call = json_array_get(request.messages[1].tool_calls, 0);
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(call, "function"), "arguments")),
            "{}");
        assert_int_equal(request.messages[0].content_length, 0);
        assert_int_equal(request.messages[1].content_length, 0);
        assert_int_equal(request.messages[2].content_length, sizeof marked - 1);
        assert_memory_equal(request.messages[2].content, marked, sizeof marked - 1);
        assert_int_equal(request.left_out.count, 2);
        assert_string_equal(request.left_out.kinds[0], "messages[].content[] of type image_url");
        lh_openai_request_reset(&request);
    }
}

static void reads_prompts(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(lh_openai_request_parse(json_of("{'prompt':[[1,2.0],[287]]}"),
                                        LH_OPENAI_COMPLETIONS, &limits, &request, &error));
    assert_int_equal(request.prompt_count, 2);
    assert_null(request.prompts[0].text);
    assert_int_equal(request.prompts[0].tokens[1], 2);
    assert_int_equal(request.prompts[1].token_count, 1);
    lh_openai_request_reset(&request);
    assert_true(lh_openai_request_parse(json_of("{'prompt':[5,6]}"), LH_OPENAI_COMPLETIONS, &limits,
                                        &request, &error));
    assert_int_equal(request.prompt_count, 1);
    assert_int_equal(request.prompts[0].token_count, 2);
    lh_openai_request_reset(&request);
}

static void survives_without_memory(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_openai_request chat;
        lh_openai_request completion;
        lh_openai_error chat_error = {0}, completion_error = {0};
        json_t *messages = json_of("{'logit_bias':{'1':1},'messages':[{'role':'user','content':[{'"
                                   "type':'text','text':'a'},{'type':'text','text':'b'}]}]}");
        json_t *prompts = json_of("{'logit_bias':{'1':1},'prompt':[[1],[2]]}");
        failing_malloc_arm(n);
        bool both =
            lh_openai_request_parse(messages, LH_OPENAI_CHAT, &limits, &chat, &chat_error) &&
            lh_openai_request_parse(prompts, LH_OPENAI_COMPLETIONS, &limits, &completion,
                                    &completion_error);
        bool failed = failing_malloc_disarm();
        bool first = chat_error.status == 0;
        lh_openai_request_reset(&chat);
        if (first)
            lh_openai_request_reset(&completion);
        else
            json_decref(prompts);
        assert_int_equal(both, !failed);
        if (!failed)
            break;
        assert_int_equal(first ? completion_error.status : chat_error.status, 500);
    }
}

static bool parse(const char *body, lh_openai_request *request, lh_openai_error *error) {
    return lh_openai_request_parse(json_of(body), LH_OPENAI_CHAT, &limits, request, error);
}

/* The elder words for tools become the newer ones, and the answer keeps to them. */
static void functions_are_tools(void **state) {
    (void)state;
    static const char body[] =
        "{'messages':[{'role':'user','content':'x'},{'role':'assistant','content':null,"
        "'function_call':{'name':'f','arguments':'{}'}},{'role':'function','name':'f','content':"
        "'y'}],'functions':[{'name':'f'},{'name':'g'}],'function_call':{'name':'g'}}";
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(body, &request, &error));
    assert_true(request.calls_functions && request.tools.has_one_call);
    assert_int_equal(request.tools.choice, LH_TOOL_CHOICE_NAMED);
    assert_string_equal(request.tools.name, "g");
    assert_int_equal(json_array_size(request.tools.list), 2);
    const json_t *call = json_array_get(request.messages[1].tool_calls, 0);
    assert_string_equal(request.messages[2].role, "tool");
    assert_string_equal(request.messages[2].tool_call_id,
                        json_string_value(json_object_get(call, "id")));
    lh_openai_request_reset(&request);
}

static void allowed_tools_are_all_that_there_are(void **state) {
    (void)state;
    static const char body[] =
        "{'messages':[{'role':'user','content':'x'}],'tools':[{'type':'function','function':"
        "{'name':'f'}},{'type':'function','function':{'name':'g'}}],'tool_choice':{'type':"
        "'allowed_tools','allowed_tools':{'mode':'required','tools':[{'type':'function',"
        "'function':{'name':'g'}}]}}}";
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(body, &request, &error));
    assert_int_equal(request.tools.choice, LH_TOOL_CHOICE_REQUIRED);
    assert_int_equal(json_array_size(request.tools.list), 1);
    lh_openai_request_reset(&request);
}

static void thoughts_are_declined_in_many_words(void **state) {
    (void)state;
    static const char *const words[] = {
        "'enable_thinking':false",
        "'think':false",
        "'thinking':{'type':'disabled'}",
        "'reasoning':{'effort':'none'}",
        "'reasoning':{'enabled':false}",
        "'reasoning_effort':'none'",
        "'think':false,'reasoning':{'enabled':true,'effort':'none'}"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char body[200];
        lh_openai_request request;
        lh_openai_error error;
        snprintf(body, sizeof body, "{'messages':[{'role':'user','content':'x'}],%s}", words[i]);
        assert_true(parse(body, &request, &error));
        assert_string_equal(json_string_value(request.reasoning_effort), "none");
        lh_openai_request_reset(&request);
    }
}

static void thoughts_that_are_wanted_are_told_to_the_template(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse("{'messages':[{'role':'user','content':'x'}],'enable_thinking':true,"
                      "'chat_template_kwargs':{'thinking':false,'a':1}}",
                      &request, &error));
    const json_t *arguments = request.template_arguments;
    assert_true(json_is_true(json_object_get(arguments, "enable_thinking")));
    assert_true(json_is_false(json_object_get(arguments, "thinking")));
    assert_int_equal(json_integer_value(json_object_get(arguments, "a")), 1);
    lh_openai_request_reset(&request);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_tools),
        cmocka_unit_test(allowed_tools_are_all_that_there_are),
        cmocka_unit_test(thoughts_are_declined_in_many_words),
        cmocka_unit_test(thoughts_that_are_wanted_are_told_to_the_template),
        cmocka_unit_test(chat_takes_and_refuses),
        cmocka_unit_test(completions_take_and_refuse),
        cmocka_unit_test(reads_messages),
        cmocka_unit_test(reads_prompts),
        cmocka_unit_test(survives_without_memory),
        cmocka_unit_test(what_is_empty_in_the_history_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
