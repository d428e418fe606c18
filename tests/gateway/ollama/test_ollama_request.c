/* Bodies of /api/chat, /api/generate and /api/embed: what is refused and by which name, what is
 * taken and left out, and which conversation messages become. */
#include "gateway/ollama/ollama_request.h"

#include "gateway/ollama/ollama_embeddings.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_openai_limits limits = {.model = "tiny",
                                        .aliases = "other,third:8b",
                                        .vocabulary = 288,
                                        .width = 8,
                                        .prompts_max = 8,
                                        .sequences_max = 48,
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

static bool parse(lh_openai_endpoint endpoint, const char *text, lh_openai_request *request,
                  lh_openai_error *error) {
    json_t *body = json_of(text);
    switch (endpoint) {
    case LH_OPENAI_OLLAMA_CHAT:
        return lh_ollama_chat_parse(body, endpoint, &limits, request, error);
    case LH_OPENAI_OLLAMA_GENERATE:
        return lh_ollama_generate_parse(body, endpoint, &limits, request, error);
    default:
        return lh_ollama_embed.parse(body, endpoint, &limits, request, error);
    }
}

#define CHAT     LH_OPENAI_OLLAMA_CHAT
#define GENERATE LH_OPENAI_OLLAMA_GENERATE
#define EMBED    LH_OPENAI_OLLAMA_EMBED
#define ELDER    LH_OPENAI_OLLAMA_EMBEDDINGS

#define WITH(fields)    "{'messages':[{'role':'user','content':'x'}]," fields "}"
#define OPTIONS(fields) WITH("'options':{" fields "}")
#define TOOL            "{'type':'function','function':{'name':'f','parameters':{'type':'object'}}}"

static const struct {
    lh_openai_endpoint endpoint;
    const char *body, *param; /* param NULL: it is taken */
} rows[] = {
    {CHAT, "{}", NULL}, /* loads the model */
    {CHAT, "{'messages':[]}", NULL},
    {CHAT, "{'messages':5}", "messages"},
    {CHAT, "{'messages':[5]}", "messages[0]"},
    {CHAT, "{'messages':[{'content':'x'}]}", "messages[0].role"},
    {CHAT, "{'messages':[{'role':'robot','content':'x'}]}", "messages[0].role"},
    {CHAT, "{'messages':[{'role':'user','content':[]}]}", "messages[0].content"},
    {CHAT, "{'messages':[{'role':'user','content':'x','images':['aGk=']}]}", "messages[0].images"},
    {CHAT, "{'messages':[{'role':'user','content':'x','images':[]}]}", NULL},
    {CHAT, "{'messages':[{'role':'assistant','tool_calls':[5]}]}", "messages[0].tool_calls[0]"},
    {CHAT, "{'messages':[{'role':'assistant','tool_calls':[{}]}]}",
     "messages[0].tool_calls[0].function.name"},
    {CHAT,
     "{'messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':'{}'}}]}]"
     "}",
     "messages[0].tool_calls[0].function.arguments"},
    {CHAT, WITH("'model':'tiny'"), NULL},
    {CHAT, WITH("'model':'tiny:latest'"), NULL},
    {CHAT, WITH("'model':'other:latest'"), NULL},
    {CHAT, WITH("'model':'third:8b'"), NULL},
    {CHAT, WITH("'model':'tiny:8b'"), "model"},
    {CHAT, WITH("'model':':latest'"), "model"},
    {CHAT, WITH("'stream':'yes'"), "stream"},
    {CHAT, WITH("'keep_alive':'5m'"), NULL},
    {CHAT, WITH("'keep_alive':-1"), NULL},
    {CHAT, WITH("'format':'json'"), NULL},
    {CHAT, WITH("'format':''"), NULL},
    {CHAT, WITH("'format':null"), NULL},
    {CHAT, WITH("'format':{'type':'object'}"), NULL},
    {CHAT, WITH("'format':'xml'"), "format"},
    {CHAT, WITH("'format':5"), "format"},
    {CHAT, WITH("'think':true"), NULL},
    {CHAT, WITH("'think':'high'"), NULL},
    {CHAT, WITH("'think':'deep'"), "think"},
    {CHAT, WITH("'think':5"), "think"},
    {CHAT, WITH("'tools':[" TOOL "]"), NULL},
    {CHAT, WITH("'tools':null"), NULL},
    {CHAT, WITH("'tools':[{'type':'web','function':{}}]"), NULL},
    {CHAT, WITH("'logprobs':true,'top_logprobs':3"), NULL},
    {CHAT, WITH("'logprobs':5"), "logprobs"},
    {CHAT, WITH("'top_logprobs':3"), "top_logprobs"},
    {CHAT, WITH("'top_logprobs':0"), NULL},
    {CHAT, WITH("'nobody':5"), NULL}, /* knows it */
    {CHAT, WITH("'options':5"), "options"},
    {CHAT, OPTIONS("'temperature':'x'"), "options.temperature"},
    {CHAT, OPTIONS("'top_k':40,'top_p':0.9,'min_p':0.1,'temperature':0.7"), NULL},
    {CHAT, OPTIONS("'num_predict':'x'"), "options.num_predict"},
    {CHAT, OPTIONS("'num_predict':-2"), NULL},
    {CHAT, OPTIONS("'stop':5"), "options.stop"},
    {CHAT, OPTIONS("'stop':['']"), "options.stop[0]"},
    {CHAT, OPTIONS("'repeat_penalty':1.1,'repeat_last_n':64"), "options.repeat_last_n"},
    {CHAT, OPTIONS("'repeat_penalty':1.1,'repeat_last_n':-1"), NULL},
    {CHAT, OPTIONS("'repeat_last_n':64"), NULL},
    {CHAT, OPTIONS("'mirostat':2"), "options.mirostat"},
    {CHAT, OPTIONS("'mirostat':0,'mirostat_tau':5"), NULL},
    {CHAT, OPTIONS("'typical_p':0.5"), "options.typical_p"},
    {CHAT, OPTIONS("'num_ctx':8192,'num_gpu':99,'use_mmap':true,'num_thread':8"), NULL},
    {GENERATE, "{'prompt':5}", "prompt"},
    {GENERATE, "{'prompt':'x','system':5}", "system"},
    {GENERATE, "{'prompt':'x','system':'s','context':[1,2]}", NULL},
    {GENERATE, "{'prompt':'x','images':['aGk=']}", "images"},
    {GENERATE, "{'prompt':'x','template':'{{ .Prompt }}'}", "template"},
    {GENERATE, "{'prompt':'x','template':''}", NULL},
    {GENERATE, "{'prompt':'x','raw':true}", NULL},
    {GENERATE, "{'prompt':'x','raw':true,'system':'s'}", "system"},
    {GENERATE, "{'prompt':'x','raw':5}", "raw"},
    {GENERATE, "{'prompt':'x','suffix':'y'}", NULL},
    {EMBED, "{}", "input"},
    {EMBED, "{'input':'x','truncate':true,'options':{'num_ctx':1}}", NULL},
    {EMBED, "{'input':['x','y']}", NULL},
    {EMBED, "{'input':[]}", NULL},
    {EMBED, "{'input':'x','dimensions':4}", "dimensions"},
    {EMBED, "{'input':'x','dimensions':8}", NULL},
    {ELDER, "{'prompt':'x','keep_alive':'1m'}", NULL},
    {ELDER, "{'prompt':''}", NULL},
};

static void wrong_bodies_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lh_openai_request request;
        lh_openai_error error;
        bool taken = parse(rows[i].endpoint, rows[i].body, &request, &error);
        if (taken != !rows[i].param)
            print_error("%s: %s\n", rows[i].body, error.message);
        assert_int_equal(taken, !rows[i].param);
        if (!taken)
            assert_string_equal(error.param, rows[i].param);
        lh_openai_request_reset(&request);
    }
}

/* ---- What clients send ---- */

/* As Home Assistant's integration, Obsidian's plugins and Zed make them, of what each can say.
 * left_out: the kinds in their order, separated by spaces. */
static const struct {
    lh_openai_endpoint endpoint;
    const char *body, *left_out;
    size_t messages, tools;
    bool streams;
} clients[] = {
    /* Home Assistant: a schema or null, thoughts or null, seconds or -1; results name no tool */
    {CHAT,
     "{'model':'tiny:latest','stream':true,'keep_alive':'-1s','options':{'num_ctx':8192},"
     "'think':false,'tools':[" TOOL "],'messages':[{'role':'system','content':'You are a voice "
     "assistant.'},{'role':'user','content':'Turn on the light'},{'role':'assistant','content':'',"
     "'tool_calls':[{'function':{'name':'f','arguments':{'name':'light'}}}]},{'role':'tool',"
     "'content':'{\\'data\\': true}'}]}",
     "keep_alive options.num_ctx", 4, 1, true},
    {CHAT,
     "{'model':'tiny','stream':true,'keep_alive':-1,'options':{'num_ctx':8192},'think':null,"
     "'tools':null,'format':{'type':'object','properties':{'a':{'type':'string'}}},"
     "'messages':[{'role':'user','content':'Name a colour'}]}",
     "keep_alive options.num_ctx", 1, 0, true},
    /* Zed: absent options as null, results by the tool's name */
    {CHAT,
     "{'model':'tiny','stream':true,'keep_alive':-1,'options':{'num_ctx':16384,'num_predict':null,"
     "'stop':[],'temperature':1.0,'top_p':null},'tools':[],'think':null,'messages':[{'role':"
     "'user','content':'x'},{'role':'assistant','content':'','tool_calls':[{'id':'c1','function':"
     "{'name':'f','arguments':{}}}],'thinking':null},{'role':'tool','tool_name':'f','content':'y'}]"
     "}",
     "keep_alive options.num_ctx", 3, 0, true},
    /* Obsidian: a prompt; or a conversation, whole, with all that its settings have */
    {GENERATE, "{'prompt':'Summarize: x','model':'tiny','options':{'temperature':0.2}}", "", 1, 0,
     true},
    {GENERATE,
     "{'model':'tiny','prompt':'x','system':'s','stream':false,'context':[1,2,3],'keep_alive':'5m',"
     "'options':{'temperature':0.7,'num_ctx':4096}}",
     "context keep_alive options.num_ctx", 2, 0, false},
};

static void what_clients_send_is_taken(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        lh_openai_request request;
        lh_openai_error error;
        bool taken = parse(clients[i].endpoint, clients[i].body, &request, &error);
        if (!taken)
            print_error("%s: %s\n", clients[i].body, error.message);
        assert_true(taken);
        assert_null(request.reply);
        assert_int_equal(request.message_count, clients[i].messages);
        assert_int_equal(json_array_size(request.tools.list), clients[i].tools);
        assert_int_equal(request.parameters.stream, clients[i].streams);
        for (size_t k = 0; k < request.left_out.count; k++)
            if (!strstr(clients[i].left_out, request.left_out.kinds[k]))
                fail_msg("%s is left out of %s", request.left_out.kinds[k], clients[i].body);
        size_t wanted = *clients[i].left_out != '\0';
        for (const char *at = clients[i].left_out; *at; at++)
            wanted += *at == ' ';
        assert_int_equal(request.left_out.count, wanted);
        lh_openai_request_reset(&request);
    }
}

/* ---- What becomes of it ---- */

static void options_become_parameters(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(CHAT,
                      OPTIONS("'temperature':0.5,'top_k':7,'top_p':0.25,'min_p':0.125,'seed':-1,"
                              "'num_predict':9,'repeat_penalty':1.5,'presence_penalty':0.5,"
                              "'frequency_penalty':0.25,'stop':['a','b']"),
                      &request, &error));
    const lh_sampling *sampling = &request.parameters.sequence.sampling;
    assert_true(sampling->temperature == 0.5f && sampling->top_p == 0.25f);
    assert_true(sampling->min_p == 0.125f && sampling->repetition_penalty == 1.5f);
    assert_true(sampling->presence_penalty == 0.5f && sampling->frequency_penalty == 0.25f);
    assert_int_equal(sampling->top_k, 7);
    assert_false(request.parameters.seed_given); /* -1: any */
    assert_true(request.parameters.max_tokens_given);
    assert_int_equal(request.parameters.max_tokens, 9);
    assert_int_equal(request.parameters.stop_count, 2);
    lh_openai_request_reset(&request);
    assert_true(parse(CHAT,
                      OPTIONS("'seed':3,'num_predict':-1,'repeat_penalty':2,'repeat_last_n':0"),
                      &request, &error));
    assert_true(request.parameters.seed_given);
    assert_false(request.parameters.max_tokens_given);
    assert_true(sampling->repetition_penalty == 1.0f);
    lh_openai_request_reset(&request);
}

static const char conversation[] =
    "{'messages':[{'role':'system','content':'s'},{'role':'user','content':'u'},"
    "{'role':'assistant','content':'','thinking':'t','tool_calls':["
    "{'function':{'name':'f','arguments':{'a':1}}},{'function':{'name':'g','arguments':{}}},"
    "{'id':'own','function':{'name':'f'}}]},"
    "{'role':'tool','tool_name':'g','content':'of g'},{'role':'tool','content':'of f'},"
    "{'role':'tool','tool_call_id':'own','content':'of own'},{'role':'tool','content':'of none'}]}";

static void calls_and_results_belong_together(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(CHAT, conversation, &request, &error));
    const lh_chat_message *m = request.messages;
    assert_int_equal(request.message_count, 7);
    assert_memory_equal(m[2].thought, "t", m[2].thought_length);
    json_t *calls = json_of(
        "[{'id':'call00000','type':'function','function':{'name':'f','arguments':'{\\'a\\':1}'}},"
        "{'id':'call00001','type':'function','function':{'name':'g','arguments':'{}'}},"
        "{'id':'own','type':'function','function':{'name':'f','arguments':'{}'}}]");
    assert_true(json_equal(m[2].tool_calls, calls));
    assert_string_equal(m[3].tool_call_id, "call00001");
    assert_string_equal(m[4].tool_call_id, "call00000");
    assert_string_equal(m[5].tool_call_id, "own");
    assert_memory_equal(m[6].content, "of none", 7);
    json_decref(calls);
    assert_true(request.has_answer_head);
    lh_openai_request_reset(&request);
}

static void an_answer_that_was_begun_goes_on(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(CHAT,
                      "{'messages':[{'role':'user','content':'u'},{'role':'assistant','content':"
                      "'It'}]}",
                      &request, &error));
    assert_true(request.continues_last_message);
    assert_false(request.has_answer_head);
    lh_openai_request_reset(&request);
}

static void a_raw_prompt_is_no_conversation(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    assert_true(parse(GENERATE, "{'prompt':'<|im_start|>','raw':true}", &request, &error));
    assert_int_equal(request.endpoint, LH_OPENAI_OLLAMA_RAW);
    assert_int_equal(request.prompt_count, 1);
    assert_true(request.parses_special);
    lh_openai_request_reset(&request);
    assert_true(parse(GENERATE, "{'prompt':'a','suffix':'b'}", &request, &error));
    assert_string_equal(request.suffix, "b");
    assert_int_equal(request.prompt_count, 1);
    lh_openai_request_reset(&request);
}

static void who_asks_nothing_is_answered_at_once(void **state) {
    (void)state;
    static const struct {
        lh_openai_endpoint endpoint;
        const char *body;
    } asked[] = {{CHAT, "{'model':'tiny'}"},
                 {GENERATE, "{'model':'tiny','keep_alive':0}"},
                 {GENERATE, "{'prompt':''}"}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        lh_openai_request request;
        lh_openai_error error;
        assert_true(parse(asked[i].endpoint, asked[i].body, &request, &error));
        assert_true(json_is_true(json_object_get(request.reply, "done")));
        assert_string_equal(json_string_value(json_object_get(request.reply, "done_reason")),
                            "load");
        lh_openai_request_reset(&request);
    }
}

static void without_memory_it_is_an_error(void **state) {
    (void)state;
    lh_openai_request request;
    lh_openai_error error;
    for (size_t n = 1;; n++) {
        json_t *body = json_of(conversation);
        failing_malloc_arm(n);
        bool parsed = lh_ollama_chat_parse(body, CHAT, &limits, &request, &error);
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
        cmocka_unit_test(what_clients_send_is_taken),
        cmocka_unit_test(options_become_parameters),
        cmocka_unit_test(calls_and_results_belong_together),
        cmocka_unit_test(an_answer_that_was_begun_goes_on),
        cmocka_unit_test(a_raw_prompt_is_no_conversation),
        cmocka_unit_test(who_asks_nothing_is_answered_at_once),
        cmocka_unit_test(without_memory_it_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
