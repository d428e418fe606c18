/* A NULL among the parts makes the whole NULL. */
#include "gateway/ollama/ollama_json.h"

#include "common/base/clock.h"
#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void lh_ollama_time(int64_t seconds, int64_t microseconds, char text[LH_OLLAMA_TIME_BYTES]) {
    time_t second = (time_t)seconds;
    struct tm parts;
    char day[24] = "1970-01-01T00:00:00";
    if (gmtime_r(&second, &parts))
        strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, LH_OLLAMA_TIME_BYTES, "%s.%06uZ", day, (unsigned)microseconds % 1000000);
}

json_t *lh_ollama_object(const char *model) {
    struct timespec now;
    char time[LH_OLLAMA_TIME_BYTES];
    clock_gettime(CLOCK_REALTIME, &now);
    lh_ollama_time(now.tv_sec, now.tv_nsec / 1000, time);
    return json_pack("{s:o, s:s}", "model", lh_json_text(model, strlen(model)), "created_at", time);
}

/* Of a clock that counts microseconds. */
static json_t *nanoseconds(int64_t from_us, int64_t to_us) {
    return json_integer(to_us > from_us ? (json_int_t)(to_us - from_us) * 1000 : 0);
}

json_t *lh_ollama_end(json_t *answer, const char *reason, const lh_openai_frame *frame,
                      const lh_token_usage *usage) {
    answer = lh_json_set(answer, "done", json_true());
    answer = lh_json_set(answer, "done_reason", json_string(reason));
    if (!usage)
        return answer;
    int64_t now_us = lh_clock_us();
    int64_t first_us = usage->first_token_us ? usage->first_token_us : now_us;
    answer = lh_json_set(answer, "total_duration", nanoseconds(frame->received_us, now_us));
    answer = lh_json_set(answer, "load_duration", json_integer(0));
    answer =
        lh_json_set(answer, "prompt_eval_count", json_integer((json_int_t)usage->prompt_tokens));
    answer = lh_json_set(answer, "prompt_eval_duration", nanoseconds(frame->received_us, first_us));
    answer = lh_json_set(answer, "eval_count", json_integer((json_int_t)usage->completion_tokens));
    answer = lh_json_set(answer, "eval_duration", nanoseconds(first_us, now_us));
    return frame->timing
               ? lh_json_set(answer, "longhaul", json_pack("{s:O}", "timing", frame->timing))
               : answer;
}

/* Clients know a model that is not there by these words. */
json_t *lh_ollama_error(const lh_openai_error *error, const char *request_id) {
    char text[sizeof error->message + 32];
    bool is_missing = error->code && strcmp(error->code, "model_not_found") == 0;
    (void)request_id; /* is in a header */
    snprintf(text, sizeof text, "%s%s", is_missing ? "model not found: " : "", error->message);
    return json_pack("{s:o}", "error", lh_json_text(text, strlen(text)));
}
