/* One request in progress: n choices for each of its prompts, each choice a sequence of the engine.
 * Tokens come in on the engine's thread and are only queued there; the owner's thread pulls pieces
 * of text out: tokens -> whole characters -> stop strings -> text.
 *
 * Choices are numbered prompt by prompt: choice c of prompt p is p * n + c. It is drawn with seed +
 * c, so that a prompt gives the same answers alone and among others.
 *
 * It knows nothing of JSON and HTTP. Thread: the owner's, but for lh_generation_abandon. */
#pragma once

#include "gateway/engine/engine.h"
#include "gateway/openai/choice.h"
#include "gateway/openai/request_metrics.h"
#include "gateway/text/served_model.h"
#include "gateway/text/stop_matcher.h"

typedef struct lh_generation lh_generation;

typedef struct lh_generation_prompt {
    const uint32_t *tokens; /* until lh_generation_submit has returned */
    uint32_t token_count;
    /* 0: nothing is generated; the choices end when what is wanted of the prompt is here, or at
     * once */
    uint32_t max_tokens;
    bool is_thinking;       /* it ends inside of a thought */
    size_t echo_characters; /* that the text of its choices begins with */
} lh_generation_prompt;

typedef struct lh_generation_options {
    const lh_generation_prompt *prompts;
    uint32_t prompt_count, choices; /* choices of each prompt */
    /* What is asked of each sequence; its prompt, stop tokens and event handler are filled in, and
     * sampling.seed is that of each prompt's first choice. */
    lh_sequence_request sequence;
    const lh_stop_string *stops;
    size_t stop_count;
    const uint32_t *stop_tokens; /* besides the model's own */
    uint32_t stop_token_count;
    bool keeps_tokens;                 /* pieces tell their tokens, also without logprobs */
    bool shows_special;                /* control tokens are in the text by their names */
    bool ignore_eos;                   /* the model's own stop tokens do not end a choice */
    const lh_thinking_marks *thinking; /* thoughts are told apart by these; NULL: they are not */
    const lh_tool_format *tool_format; /* the same of calls of tools */
    uint32_t tool_calls_max;           /* of a choice */
    bool must_call;                    /* its form begins with a call */
    const json_t *tools;               /* tool_call_parser.h; the generation holds a reference */
    bool only_whole; /* text is of no use before a choice has ended: on_ready may wait until then */
    /* There is something to pull. On the engine's thread; must not block or call back. */
    void (*on_ready)(void *context);
    void *context;
    /* What becomes of it is noted there; NULL: nowhere. Outlives the generation. */
    lh_request_metrics *metrics;
    int64_t received_us; /* when its request's headers came */
} lh_generation_options;

typedef struct lh_token_usage {
    /* Of all prompts, each counted once, and of all choices so far (up to and with the token that
     * completed a stop string). */
    uint64_t prompt_tokens, completion_tokens;
    /* Of the prompts' tokens, those that did not have to be computed for each prompt's first
     * choice, as far as is known. */
    uint64_t cached_tokens;
    uint64_t thought_tokens; /* of those of the completions */
    int64_t first_token_us;  /* when it came, on lh_clock_us; 0: none has */
} lh_token_usage;

/* Nothing runs yet. LH_ERR_INVALID, LH_ERR_LIMIT: of the stop strings; LH_ERR_NO_MEMORY. */
lh_status lh_generation_create(lh_engine *engine, const lh_served_model *model,
                               const lh_generation_options *options, lh_generation **generation,
                               lh_error *error);
/* Submits all sequences or none, once, with the options of its creation. on_ready may come before
 * it returns. Statuses of lh_engine_submit; the generation can only be destroyed then. */
lh_status lh_generation_submit(lh_generation *generation, const lh_generation_options *options,
                               lh_error *error);
/* Stops what is still running, waits for an event that is being delivered, and frees all. */
void lh_generation_destroy(lh_generation *generation);
/* Stops what is still running, without waiting: no event matters any more. Any thread, also while
 * it is being submitted. */
void lh_generation_abandon(lh_generation *generation);

/* LH_OK: *piece is filled; LH_AGAIN: nothing until on_ready; LH_ERR_CLOSED: every choice has ended.
 * Any other status: a choice has failed, and with it the request (LH_ERR_UNAVAILABLE,
 * LH_ERR_TIMEOUT, LH_ERR_LIMIT, LH_ERR_NO_MEMORY, else LH_ERR_INTERNAL). */
lh_status lh_generation_pull(lh_generation *generation, lh_generation_piece *piece,
                             lh_error *error);

/* How far it has come, for the log. */
typedef struct lh_generation_progress {
    const char *chain; /* that of its latest event; NULL: there has been none */
    uint32_t epoch;
    int64_t first_token_us;  /* when it came, on lh_clock_us; 0: none has */
    uint64_t tokens_sampled; /* also those that nobody has pulled */
    const char *finish; /* of all choices: "stop", "length", "stop,length"; "": one has not ended */
} lh_generation_progress;
lh_generation_progress lh_generation_tell(lh_generation *generation);

lh_token_usage lh_generation_usage(const lh_generation *generation);
/* Of the engine's processor time, for following the form of the answers so far. */
uint64_t lh_generation_guided_us(const lh_generation *generation);
/* Of memory, for what was generated and not pulled yet. */
size_t lh_generation_held_bytes(lh_generation *generation);
