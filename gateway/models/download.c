/* Tries, until one has brought the last byte. */
#include "gateway/models/download.h"

#include "common/gguf/regular_file.h"
#include "gateway/models/http_get.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FIRST_PAUSE_MS 100
#define PAUSE_MAX_MS   8000
/* A server may ask for more patience than that; then it is better to come again by hand. */
#define RETRY_AFTER_MAX_S 300
/* A file that changes under each try, or a server that takes no ranges and never comes to the end.
 */
#define RESTARTS_MAX 3u
/* A try that brought as much as this starts the count of failures anew. */
#define PROGRESS_BYTES_MIN (64u << 10)

typedef struct run {
    const lh_download *download;
    lh_part_file *part;
    lh_pull_report *report;
    uint64_t total; /* of the file; 0: not known yet */
    uint32_t restarts;
    bool is_resumed; /* bytes of an earlier run, or from before a break, are in the part */
} run;

/* ---- What the part is of ---- */

static bool is_strong(const char *tag) {
    return tag[0] == '"';
}

/* The part's tag where a digest is known: it outlives every change of an ETag. */
static void digest_tag(const lh_download *d, char tag[LH_PART_TAG_BYTES]) {
    char hex[LH_SHA256_HEX_BYTES];
    lh_sha256_render(d->sha256, hex);
    snprintf(tag, LH_PART_TAG_BYTES, "sha256:%s", hex);
}

static lh_status restart(run *r, const char *why, lh_error *error) {
    if (r->part->bytes > 0) {
        lh_pull_report_note(r->report, "%s: from the beginning", why);
        if (++r->restarts > RESTARTS_MAX)
            return lh_fail(error, LH_ERR_UNAVAILABLE,
                           "%.200s: begun anew %u times, it never comes to its end",
                           r->download->url, RESTARTS_MAX);
    }
    r->total = r->download->bytes;
    r->is_resumed = false;
    return lh_part_file_restart(r->part, error);
}

/* What an earlier run has left goes on only if it is known to be of this file. */
static lh_status look_at_part(run *r, lh_error *error) {
    char tag[LH_PART_TAG_BYTES];
    const lh_download *d = r->download;
    digest_tag(d, tag);
    r->total = d->bytes;
    r->is_resumed = r->part->bytes > 0;
    bool is_same = d->has_sha256 ? strcmp(r->part->tag, tag) == 0 : is_strong(r->part->tag);
    if (!is_same || (d->bytes && r->part->bytes > d->bytes)) {
        lh_status status = lh_part_file_restart(r->part, error);
        r->is_resumed = false;
        return status == LH_OK && d->has_sha256 ? lh_part_file_set_tag(r->part, tag, error)
                                                : status;
    }
    return LH_OK;
}

/* ---- One answer ---- */

static lh_status check_total(run *r, uint64_t total, lh_error *error) {
    if (r->download->bytes && total != r->download->bytes)
        return lh_fail(error, LH_ERR_CORRUPT,
                       "%.180s has %" PRIu64 " bytes, and %" PRIu64 " were announced",
                       r->download->url, total, r->download->bytes);
    r->total = total;
    return total > r->part->bytes ? lh_part_file_need_room(r->part, total - r->part->bytes, error)
                                  : LH_OK;
}

static lh_status note_tag(run *r, const char *tag, lh_error *error) {
    return r->download->has_sha256
               ? LH_OK
               : lh_part_file_set_tag(r->part, is_strong(tag) ? tag : "", error);
}

/* 200: the whole file comes, also where a range was asked for. */
static lh_status begin_whole(run *r, const lh_http_answer *answer, lh_error *error) {
    bool is_other = r->part->tag[0] && strcmp(r->part->tag, answer->tag) != 0;
    lh_status status = LH_OK;
    if (r->part->bytes > 0)
        status = restart(r,
                         !r->download->has_sha256 && is_other ? "the file has changed on the server"
                                                              : "the server sends the whole file",
                         error);
    if (status == LH_OK && r->download->has_sha256) {
        char tag[LH_PART_TAG_BYTES];
        digest_tag(r->download, tag);
        status = lh_part_file_set_tag(r->part, tag, error);
    } else if (status == LH_OK) {
        status = note_tag(r, answer->tag, error);
    }
    return status == LH_OK && answer->has_length ? check_total(r, answer->length, error) : status;
}

/* 206: goes on where the part ends. LH_ERR_STALE: it is of another file than the part. */
static lh_status begin_rest(run *r, const lh_http_answer *answer, lh_error *error) {
    if (!answer->has_range || answer->range_first != r->part->bytes)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "%.150s: asked for the bytes from %" PRIu64
                       " on, the server sends others (Content-Range)",
                       r->download->url, r->part->bytes);
    if (answer->has_total && answer->total <= r->part->bytes)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "%.150s: the server sends bytes from %" PRIu64 " on of %" PRIu64
                       " (Content-Range)",
                       r->download->url, r->part->bytes, answer->total);
    if (!r->download->has_sha256 && strcmp(r->part->tag, answer->tag) != 0)
        return lh_fail(error, LH_ERR_STALE, "%.200s has changed", r->download->url);
    return answer->has_total ? check_total(r, answer->total, error) : LH_OK;
}

/* lh_http_request.on_answer */
static lh_status on_answer(void *context, const lh_http_answer *answer, lh_error *error) {
    if (answer->status == 200)
        return begin_whole(context, answer, error);
    return answer->status == 206 ? begin_rest(context, answer, error) : LH_OK;
}

/* lh_http_request.on_bytes */
static lh_status on_bytes(void *context, const char *bytes, size_t length, lh_error *error) {
    run *r = context;
    if (r->total && length > r->total - r->part->bytes)
        return lh_fail(error, LH_ERR_CORRUPT, "%.180s sends more than the %" PRIu64 " bytes it has",
                       r->download->url, r->total);
    lh_status status = lh_part_file_append(r->part, bytes, length, error);
    lh_pull_report_advance(r->report, r->part->bytes, r->total);
    return status;
}

/* What an answer means that is neither 200 nor 206. *may_retry: another try may bring more. */
static lh_status refuse(run *r, const lh_http_answer *answer, bool *may_retry, lh_error *error) {
    const char *url = r->download->url;
    long code = answer->status;
    *may_retry = code == 408 || code == 429 || code >= 500;
    if (code == 404 || code == 410)
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "%.200s: the server answers %ld: it has no such "
                       "file",
                       url, code);
    if (code == 401 || code == 403)
        return lh_fail(error, LH_ERR_INVALID,
                       "%.170s: the server answers %ld: a model that wants a login or a licence "
                       "needs --hub-token-file with the token of an account that may read it",
                       url, code);
    if (answer->retry_after_s > RETRY_AFTER_MAX_S) {
        *may_retry = false;
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "%.170s: the server answers %ld and asks to come again in %" PRId64
                       " s: pull again then, it goes on where it is",
                       url, code, answer->retry_after_s);
    }
    return lh_fail(error, LH_ERR_UNAVAILABLE, "%.200s: the server answers %ld", url, code);
}

/* 416: there is no byte where the part ends. Either nothing is missing, or it is another file. */
static lh_status judge_range(run *r, const lh_http_answer *answer, bool *is_complete,
                             lh_error *error) {
    bool fits = !r->download->bytes || r->part->bytes == r->download->bytes;
    *is_complete = answer->has_total && answer->total == r->part->bytes && fits;
    return *is_complete ? LH_OK : restart(r, "the file is another one on the server", error);
}

/* ---- Tries ---- */

static bool is_complete(const run *r) {
    return r->total && r->part->bytes == r->total;
}

/* One request. *is_done: nothing is missing any more. */
static lh_status try_once(run *r, int64_t *retry_after_s, bool *may_retry, bool *is_done,
                          lh_error *error) {
    lh_http_answer answer;
    lh_http_request request = {.url = r->download->url,
                               .token = r->download->token,
                               .from = r->part->bytes,
                               .if_range = r->download->has_sha256 ? "" : r->part->tag,
                               .stall_timeout_s = r->download->stall_timeout_s,
                               .on_answer = on_answer,
                               .on_bytes = on_bytes,
                               .context = r};
    /* Of an answer without a strong ETag nothing can be taken up again. */
    if (request.from > 0 && !r->download->has_sha256 && !is_strong(r->part->tag)) {
        lh_status status = restart(r, "nothing shows that the rest is of the same file", error);
        if (status != LH_OK)
            return status;
        request.from = 0;
    }
    lh_status status = lh_http_get(&request, &answer, error);
    *retry_after_s = answer.retry_after_s;
    *may_retry = status == LH_ERR_UNAVAILABLE || status == LH_ERR_TIMEOUT;
    if (status == LH_ERR_STALE) {
        *may_retry = true;
        lh_status again = restart(r, "the file has changed on the server", error);
        return again == LH_OK ? LH_ERR_STALE : again;
    }
    if (status != LH_OK)
        return status;
    if (answer.status == 416 && r->part->bytes > 0) {
        *may_retry = true;
        status = judge_range(r, &answer, is_done, error);
        return status == LH_OK && !*is_done ? LH_ERR_STALE : status;
    }
    if (answer.status != 200 && answer.status != 206)
        return refuse(r, &answer, may_retry, error);
    *is_done = !r->total || is_complete(r);
    *may_retry = true;
    return *is_done ? LH_OK
                    : lh_fail(error, LH_ERR_UNAVAILABLE,
                              "%.170s: the server ended after %" PRIu64 " of %" PRIu64 " bytes",
                              r->download->url, r->part->bytes, r->total);
}

static void pause_ms(int64_t duration_ms) {
    struct timespec left = {.tv_sec = duration_ms / 1000, .tv_nsec = duration_ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

static lh_status fetch(run *r, lh_error *error) {
    lh_error problem = {.status = LH_OK};
    int64_t pause = FIRST_PAUSE_MS, retry_after_s = 0;
    bool is_done = is_complete(r), may_retry = false;
    for (uint32_t failures = 0; !is_done;) {
        uint64_t before = r->part->bytes;
        lh_status status = try_once(r, &retry_after_s, &may_retry, &is_done, &problem);
        if (is_done)
            break;
        if (status == LH_ERR_STALE) /* begun anew, which is counted there */
            continue;
        r->is_resumed |= r->part->bytes > 0;
        if (r->part->bytes > before)
            pause = FIRST_PAUSE_MS;
        if (r->part->bytes >= before + PROGRESS_BYTES_MIN)
            failures = 0;
        if (!may_retry || r->restarts > RESTARTS_MAX || ++failures >= r->download->tries)
            return lh_fail(error, status, "%s", problem.message);
        lh_pull_report_note(r->report, "tried again: %.300s", problem.message);
        pause_ms(retry_after_s > 0 ? retry_after_s * 1000 : pause);
        pause = 2 * pause < PAUSE_MAX_MS ? 2 * pause : PAUSE_MAX_MS;
    }
    return lh_part_file_sync(r->part, error);
}

/* LH_ERR_CORRUPT: the digest differs. */
static lh_status check_digest(const run *r, lh_error *error) {
    uint8_t digest[LH_SHA256_BYTES];
    char wanted[LH_SHA256_HEX_BYTES], found[LH_SHA256_HEX_BYTES];
    lh_regular_file *file;
    if (!r->download->has_sha256)
        return LH_OK;
    lh_pull_report_check(r->report, r->part->bytes);
    lh_status status = lh_regular_file_open(r->part->path, &file, error);
    if (status != LH_OK)
        return status;
    status = lh_regular_file_digest(file, 0, lh_regular_file_size(file), NULL, digest, error);
    lh_regular_file_close(file);
    if (status != LH_OK || lh_sha256_equal(digest, r->download->sha256))
        return status;
    lh_sha256_render(digest, found);
    lh_sha256_render(r->download->sha256, wanted);
    return lh_fail(error, LH_ERR_CORRUPT, "%.100s: its SHA-256 is %s, %s was wanted",
                   r->download->url, found, wanted);
}

lh_status lh_download_run(const lh_download *download, lh_part_file *part, lh_pull_report *report,
                          lh_error *error) {
    run r = {.download = download, .part = part, .report = report};
    lh_status status = look_at_part(&r, error);
    if (status == LH_OK)
        status = fetch(&r, error);
    if (status == LH_OK)
        status = check_digest(&r, error);
    if (status == LH_ERR_CORRUPT && r.is_resumed) {
        /* Perhaps the two halves are of two files. */
        status = restart(&r, "what is here is damaged", error);
        if (status == LH_OK)
            status = fetch(&r, error);
        if (status == LH_OK)
            status = check_digest(&r, error);
    }
    if (status == LH_ERR_CORRUPT) {
        lh_error ignored;
        lh_part_file_restart(part, &ignored);
    }
    return status;
}
